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
 * A CUDA card, and what a launch wants to know of it. It is asked once, since each question takes a while.
 *
 * @param multiprocessors how many it has
 * @param l2Bytes size of its L2 cache
 * @param fp32 a tensor of fp32 numbers there
 */
public record Gpu(Device device, GpuArchitecture architecture, int multiprocessors, int l2Bytes, TensorOptions fp32) {
    private static final MemoryFormatOptional DENSE = MemoryScope.keep(new MemoryFormatOptional());
    private static final Map<Integer, Gpu> GPUS = new ConcurrentHashMap<>();

    /** The card that a tensor is on. */
    public static Gpu of(Tensor tensor) {
        return of(Driver.deviceIndex(tensor));
    }

    /** The card that a device is. */
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
                MemoryScope.keep(device.options(DType.FLOAT32)));
    }

    /** Room for fp32 numbers, dense, in the caller's memory scope. */
    public Tensor empty(long... shape) {
        return torch.empty(shape, fp32, DENSE);
    }
}
