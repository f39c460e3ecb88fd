package cs336.torch;

import java.util.Objects;
import org.bytedeco.pytorch.DeviceOptional;
import org.bytedeco.pytorch.ScalarTypeOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptions;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.DeviceType;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * The CPU or a CUDA device, on which tensors are stored and operations run.
 *
 * @param kind CPU or CUDA
 * @param index the index of the CUDA device; 0 for the CPU
 */
public record Device(DeviceKind kind, int index) {
    static {
        Torch.load();
    }

    /**
     * @throws IllegalArgumentException if the index of the CPU is not 0, or the CUDA device is not available; the
     *     message states the reason
     */
    public Device {
        if (kind == DeviceKind.CPU && index != 0) {
            throw new IllegalArgumentException("index of the CPU must be 0, not " + index);
        }
        if (kind == DeviceKind.CUDA) {
            requireCuda(index);
        }
    }

    /**
     * Returns the first CUDA device if one is available, otherwise the CPU. If libtorch's CPU build is used on a
     * machine with an NVIDIA driver, the first call prints the reason. With the GPU build it prints nothing, even if
     * there is no GPU.
     */
    public static Device best() {
        if (cudaCount() > 0) {
            return cuda(0);
        }
        GpuBuild.warnIfUnused();
        return cpu();
    }

    /** Returns the CPU. */
    public static Device cpu() {
        return new Device(DeviceKind.CPU, 0);
    }

    /**
     * Returns a CUDA device.
     *
     * @throws IllegalArgumentException if it is not available; the message states the reason
     */
    public static Device cuda(int index) {
        return new Device(DeviceKind.CUDA, index);
    }

    /**
     * Parses {@code best}, {@code cpu}, {@code cuda} or {@code cuda:N}.
     *
     * @throws IllegalArgumentException if the text is none of these, or the device is not available
     */
    public static Device parse(String text) {
        Objects.requireNonNull(text, "text must not be null");
        return switch (text) {
            case "best" -> best();
            case "cpu" -> cpu();
            case "cuda" -> cuda(0);
            default -> {
                if (!text.matches("cuda:\\d{1,3}")) {
                    throw new IllegalArgumentException(
                            "device '" + text + "' is unknown; known: best, cpu, cuda, cuda:N");
                }
                yield cuda(Integer.parseInt(text.substring("cuda:".length())));
            }
        };
    }

    /**
     * Returns the device of a tensor.
     *
     * @throws IllegalArgumentException if the tensor is null, closed or undefined
     */
    public static Device of(Tensor tensor) {
        Tensors.requireDefined("tensor", tensor);
        return tensor.is_cuda() ? cuda(tensor.device().index()) : cpu();
    }

    /** Returns the number of available CUDA devices: 0 without a GPU, a driver or the GPU build of libtorch. */
    public static int cudaCount() {
        return torch.hasCUDA() && torch.cuda_is_available() ? torch_cuda.device_count() : 0;
    }

    private static void requireCuda(int index) {
        if (!torch.hasCUDA()) {
            throw new IllegalArgumentException(
                    "device cuda:" + index + " is not available: " + GpuBuild.unavailableReason());
        }
        int count = cudaCount();
        if (count == 0) {
            throw new IllegalArgumentException(
                    "device cuda:" + index + " is not available: no driver (libcuda.so.1) was found, or it reports no"
                            + " GPU. Check that 'nvidia-smi' lists a GPU and that CUDA_VISIBLE_DEVICES is not"
                            + " empty.");
        }
        if (index < 0 || index >= count) {
            throw new IllegalArgumentException(
                    "device cuda:" + index + " is not available; available: cuda:0 … cuda:" + (count - 1));
        }
    }

    /** Returns whether this is a CUDA device. */
    public boolean isCuda() {
        return kind == DeviceKind.CUDA;
    }

    /**
     * Blocks until all work queued on this device, on any stream, is done; returns at once on the CPU. Afterwards a GPU
     * is the current device of the thread.
     */
    public void synchronize() {
        if (isCuda()) {
            makeCurrent();
            torch_cuda.device_synchronize();
        }
    }

    /** Makes this the current CUDA device of this thread; does nothing on the CPU. */
    public void makeCurrent() {
        if (isCuda()) {
            torch_cuda.set_device((byte) index);
        }
    }

    /** Returns the product name of the GPU, such as {@code NVIDIA H200}, or the model name of the CPU. */
    public String productName() {
        return isCuda() ? torch_cuda.getDeviceProperties((byte) index).name().getString() : Processor.name();
    }

    /** Returns this device as an object of the presets, in the caller's memory scope. */
    public org.bytedeco.pytorch.Device toTorch() {
        DeviceType type = isCuda() ? DeviceType.CUDA : DeviceType.CPU;
        return isCuda() ? new org.bytedeco.pytorch.Device(type, (byte) index) : new org.bytedeco.pytorch.Device(type);
    }

    /** Returns the options of a new tensor of this dtype on this device, in the caller's memory scope. */
    public TensorOptions options(DType dtype) {
        return new TensorOptions()
                .device(new DeviceOptional(toTorch()))
                .dtype(new ScalarTypeOptional(dtype.scalarType()));
    }

    @Override
    public String toString() {
        return isCuda() ? "cuda:" + index : "cpu";
    }
}
