package cs336.kernels.runtime;

import cs336.torch.Device;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.cuda.cudart.CUctx_st;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.PointerPointer;
import org.bytedeco.pytorch.Tensor;

/** The CUDA driver, with its return codes checked. */
public final class Driver {
    private static final Map<Integer, CUctx_st> CONTEXTS = new ConcurrentHashMap<>();
    private static final boolean ONE_GPU = Device.cudaCount() == 1;

    private Driver() {}

    /**
     * Turns a failure into an exception with CUDA's name for it, such as CUDA_ERROR_INVALID_VALUE.
     *
     * @param call what was called, for the message
     */
    static void check(int result, String call) {
        if (result == cudart.CUDA_SUCCESS) return;
        throw new IllegalStateException(call + " failed: " + text(result, true) + " (" + text(result, false) + ")");
    }

    private static String text(int result, boolean name) {
        try (PointerPointer<BytePointer> to = new PointerPointer<>(1)) {
            int known = name ? cudart.cuGetErrorName(result, to) : cudart.cuGetErrorString(result, to);
            return known == cudart.CUDA_SUCCESS ? to.get(BytePointer.class, 0).getString() : "error " + result;
        }
    }

    /** The context that PyTorch uses on this card. */
    static CUctx_st context(int device) {
        return CONTEXTS.computeIfAbsent(device, index -> {
            check(cudart.cuInit(0), "cuInit");
            CUctx_st context = new CUctx_st();
            check(cudart.cuDevicePrimaryCtxRetain(context, index), "cuDevicePrimaryCtxRetain");
            return context;
        });
    }

    /** Runs something with the card's context as the thread's own, which on a fresh thread it is not. */
    static void in(CUctx_st context, CUctx_st scratch, Runnable action) {
        check(cudart.cuCtxPushCurrent(context), "cuCtxPushCurrent");
        try {
            action.run();
        } finally {
            cudart.cuCtxPopCurrent(scratch);
        }
    }

    /**
     * The number of the card that a CUDA tensor is on. To ask makes a native object for the answer; of one card, nobody
     * asks.
     */
    static int deviceIndex(Tensor tensor) {
        if (ONE_GPU) return 0;
        try (var device = tensor.device()) {
            return device.index();
        }
    }

    /** A property of a card, by its number in cuda.h. */
    public static int attribute(Device device, int attribute) {
        int[] value = new int[1];
        context(device.index());
        check(cudart.cuDeviceGetAttribute(value, attribute, device.index()), "cuDeviceGetAttribute");
        return value[0];
    }
}
