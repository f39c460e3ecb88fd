package cs336.kernels.runtime;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.pytorch.MemoryFormatOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptions;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * A CUDA device with the properties that launches need. They are queried once per device, because each query is slow
 * compared with a launch.
 *
 * @param multiprocessors number of streaming multiprocessors
 * @param l2Bytes size of the L2 cache, in bytes
 * @param blockSharedBytes largest shared memory that a block can opt in to, static and dynamic together, in bytes
 * @param fp32 options of an fp32 tensor on this device
 */
public record Gpu(
        Device device,
        GpuArchitecture architecture,
        int multiprocessors,
        int l2Bytes,
        int blockSharedBytes,
        TensorOptions fp32) {
    /** The largest dynamic shared memory of a block on Hopper GPUs, in bytes. */
    public static final int HOPPER_SHARED_BYTES = 227 * 1024;

    /**
     * Bytes of input above which kernels assume that the L2 cache holds only a fraction of it. The L2 cache of an H200
     * has 60 MB.
     */
    public static final long STREAM_BYTES = 128L << 20;

    private static final MemoryFormatOptional CONTIGUOUS = MemoryScope.keep(new MemoryFormatOptional());
    private static final Map<Integer, Gpu> GPUS = new ConcurrentHashMap<>();

    /** Returns the GPU that a CUDA tensor is on. */
    public static Gpu of(Tensor tensor) {
        return of(Driver.deviceIndex(tensor));
    }

    /** Returns the GPU of a CUDA device. */
    public static Gpu of(Device device) {
        return of(device.index());
    }

    private static Gpu of(int index) {
        return GPUS.computeIfAbsent(index, Gpu::read);
    }

    private static Gpu read(int index) {
        Device device = Device.cuda(index);
        return new Gpu(
                device,
                GpuArchitecture.of(device),
                torch_cuda.getDeviceProperties((byte) index).multiProcessorCount(),
                Driver.attribute(device, cudart.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
                Driver.attribute(device, cudart.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
                MemoryScope.keep(device.options(DType.FLOAT32)));
    }

    /** Returns whether the GPU can run the hand-written kernels: sm_80 or newer. */
    public boolean runsKernels() {
        return architecture.major() >= 8;
    }

    /**
     * Returns whether the GPU can run kernels with Hopper's instructions and up to 227 KiB of shared memory per block.
     */
    public boolean runsHopperKernels() {
        return architecture.major() == 9 && blockSharedBytes >= HOPPER_SHARED_BYTES;
    }

    /** Returns an uninitialized contiguous fp32 tensor, in the caller's memory scope. */
    public Tensor empty(long... shape) {
        return torch.empty(shape, fp32, CONTIGUOUS);
    }

    /** Returns an uninitialized contiguous tensor of a dtype, in the caller's memory scope. */
    public Tensor empty(DType type, long... shape) {
        return torch.empty(shape, device.options(type), CONTIGUOUS);
    }
}
