package cs336.torch;

import org.bytedeco.pytorch.DeviceOptional;
import org.bytedeco.pytorch.ScalarTypeOptional;
import org.bytedeco.pytorch.TensorOptions;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.DeviceType;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * Where tensors live and operations run.
 *
 * @param kind CPU or CUDA
 * @param index which card, from 0; always 0 for the CPU
 */
public record Device(DeviceKind kind, int index) {
    static {
        Torch.load();
    }

    public Device {
        if (kind == DeviceKind.CPU && index != 0) {
            throw new IllegalArgumentException("index of the CPU must be 0, not " + index);
        }
        if (kind == DeviceKind.CUDA) {
            requireCuda(index);
        }
    }

    /** The first CUDA card if there is a usable one, otherwise the CPU. */
    public static Device best() {
        return cudaCount() > 0 ? cuda(0) : cpu();
    }

    /** The CPU. */
    public static Device cpu() {
        return new Device(DeviceKind.CPU, 0);
    }

    /**
     * A CUDA card.
     *
     * @throws IllegalArgumentException if there is no such card; the message says what was looked for and what is
     *     missing
     */
    public static Device cuda(int index) {
        return new Device(DeviceKind.CUDA, index);
    }

    /**
     * Reads {@code best}, {@code cpu}, {@code cuda} or {@code cuda:N}.
     *
     * @throws IllegalArgumentException if the text is none of these, or there is no such card
     */
    public static Device parse(String text) {
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

    /** How many CUDA cards can be used: 0 without a card, a driver, or the GPU build of libtorch. */
    public static int cudaCount() {
        return torch.hasCUDA() && torch.cuda_is_available() ? torch_cuda.device_count() : 0;
    }

    private static void requireCuda(int index) {
        if (!torch.hasCUDA()) {
            throw new IllegalArgumentException("cuda:" + index + " asked for, but " + GpuBuild.whyNot());
        }
        int count = cudaCount();
        if (count == 0) {
            throw new IllegalArgumentException(
                    "cuda:" + index + " asked for, but no CUDA card can be used: looked for a"
                            + " driver (libcuda.so.1) and for cards it offers. 'nvidia-smi' should list one; is"
                            + " CUDA_VISIBLE_DEVICES empty?");
        }
        if (index < 0 || index >= count) {
            throw new IllegalArgumentException(
                    "cuda:" + index + " asked for, but the cards are cuda:0 … cuda:" + (count - 1));
        }
    }

    /** Whether this is a CUDA card. */
    public boolean isCuda() {
        return kind == DeviceKind.CUDA;
    }

    /** Waits until all work that was queued on this device is done; on the CPU there is nothing to wait for. */
    public void synchronize() {
        if (isCuda()) {
            makeCurrent();
            torch_cuda.device_synchronize();
        }
    }

    /** Makes this card the one that new CUDA work of this thread goes to; nothing on the CPU. */
    public void makeCurrent() {
        if (isCuda()) {
            torch_cuda.set_device((byte) index);
        }
    }

    /** The marketing name of the card, as in {@code NVIDIA H200}, or the processor's name. */
    public String productName() {
        return isCuda() ? torch_cuda.getDeviceProperties((byte) index).name().getString() : Processor.name();
    }

    /** The same device as the presets name it. The caller's memory scope frees it. */
    public org.bytedeco.pytorch.Device toTorch() {
        DeviceType type = isCuda() ? DeviceType.CUDA : DeviceType.CPU;
        return isCuda() ? new org.bytedeco.pytorch.Device(type, (byte) index) : new org.bytedeco.pytorch.Device(type);
    }

    /** Options for a new tensor of this type on this device. The caller's memory scope frees them. */
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
