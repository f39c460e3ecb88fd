package cs336.kernels.runtime;

import cs336.torch.Device;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.cuda.cudart.CUctx_st;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.PointerPointer;
import org.bytedeco.pytorch.Tensor;

/** Calls of the CUDA driver API, with their return codes checked. */
final class Driver {
    private static final Map<Integer, CUctx_st> CONTEXTS = new ConcurrentHashMap<>();
    private static final boolean ONE_GPU = Device.cudaCount() == 1;

    private Driver() {}

    /**
     * Checks the result of a driver call.
     *
     * @param call name of the called function, for the message
     * @throws IllegalStateException if the call failed, with CUDA's name of the error, such as CUDA_ERROR_INVALID_VALUE
     */
    static void check(int result, String call) {
        if (result == cudart.CUDA_SUCCESS) {
            return;
        }
        throw new IllegalStateException(call + " failed: " + text(result, true) + " (" + text(result, false) + ")");
    }

    private static String text(int result, boolean name) {
        try (PointerPointer<BytePointer> to = new PointerPointer<>(1)) {
            int known = name ? cudart.cuGetErrorName(result, to) : cudart.cuGetErrorString(result, to);
            return known == cudart.CUDA_SUCCESS ? to.get(BytePointer.class, 0).getString() : "error " + result;
        }
    }

    /** Returns the primary context of a device, which PyTorch uses too. */
    static CUctx_st context(int device) {
        return CONTEXTS.computeIfAbsent(device, index -> {
            check(cudart.cuInit(0), "cuInit");
            var context = new CUctx_st();
            check(cudart.cuDevicePrimaryCtxRetain(context, index), "cuDevicePrimaryCtxRetain");
            return context;
        });
    }

    /**
     * Runs an action with this context current on the calling thread; a new thread has no current context.
     *
     * @param scratch receives the context that is popped afterwards
     */
    static void in(CUctx_st context, CUctx_st scratch, Runnable action) {
        check(cudart.cuCtxPushCurrent(context), "cuCtxPushCurrent");
        try {
            action.run();
        } finally {
            cudart.cuCtxPopCurrent(scratch);
        }
    }

    /**
     * Returns the index of the CUDA device that a tensor is on. With a single device it skips the native call, which
     * allocates an object.
     */
    static int deviceIndex(Tensor tensor) {
        if (ONE_GPU) {
            return 0;
        }
        try (var device = tensor.device()) {
            return device.index();
        }
    }

    /** Returns a {@code CUdevice_attribute} of a device. */
    static int attribute(Device device, int attribute) {
        int[] value = new int[1];
        context(device.index());
        check(cudart.cuDeviceGetAttribute(value, attribute, device.index()), "cuDeviceGetAttribute");
        return value[0];
    }
}
