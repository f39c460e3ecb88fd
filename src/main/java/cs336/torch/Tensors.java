package cs336.torch;

import java.util.Arrays;
import org.bytedeco.javacpp.DoublePointer;
import org.bytedeco.javacpp.FloatPointer;
import org.bytedeco.javacpp.LongPointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** Tensors from Java arrays and back. Values are row-major; what is made is on the CPU and owns its memory. */
public final class Tensors {
    static {
        Torch.load();
    }

    private Tensors() {}

    /**
     * An fp64 tensor of these values and this shape.
     *
     * @throws IllegalArgumentException if the shape does not hold as many values as there are
     */
    public static Tensor of(double[] values, long... shape) {
        try (var scope = MemoryScope.open()) {
            requireFits(values.length, shape);
            return scope.escape(copy(new DoublePointer(values), DType.FLOAT64, shape));
        }
    }

    /** An fp32 tensor; see {@link #of(double[], long...)}. */
    public static Tensor of(float[] values, long... shape) {
        try (var scope = MemoryScope.open()) {
            requireFits(values.length, shape);
            return scope.escape(copy(new FloatPointer(values), DType.FLOAT32, shape));
        }
    }

    /** An int64 tensor; see {@link #of(double[], long...)}. */
    public static Tensor of(long[] values, long... shape) {
        try (var scope = MemoryScope.open()) {
            requireFits(values.length, shape);
            return scope.escape(copy(new LongPointer(values), DType.INT64, shape));
        }
    }

    /** All values of a tensor of any type on any device, as doubles. */
    public static double[] toDoubles(Tensor tensor) {
        try (var scope = MemoryScope.open()) {
            double[] values = new double[Math.toIntExact(tensor.numel())];
            Tensor onCpu = tensor.detach()
                    .to(Device.cpu().toTorch(), DType.FLOAT64.scalarType())
                    .contiguous();
            new DoublePointer(onCpu.data_ptr()).get(values);
            return values;
        }
    }

    /** All values of an int64 tensor on any device. */
    public static long[] toLongs(Tensor tensor) {
        try (var scope = MemoryScope.open()) {
            long[] values = new long[Math.toIntExact(tensor.numel())];
            Tensor onCpu =
                    tensor.to(Device.cpu().toTorch(), DType.INT64.scalarType()).contiguous();
            new LongPointer(onCpu.data_ptr()).get(values);
            return values;
        }
    }

    /** The sizes of a tensor's dimensions. */
    public static long[] shape(Tensor tensor) {
        long[] shape = new long[(int) tensor.dim()];
        for (int i = 0; i < shape.length; i++) {
            shape[i] = tensor.size(i);
        }
        return shape;
    }

    /** The shape without its last dimension: [B, T, d] → [B, T]. */
    public static long[] leadingShape(Tensor tensor) {
        return Arrays.copyOf(shape(tensor), (int) tensor.dim() - 1);
    }

    private static Tensor copy(Pointer values, DType dtype, long[] shape) {
        return torch.from_blob(values, shape, Device.cpu().options(dtype)).clone();
    }

    private static void requireFits(int values, long[] shape) {
        long places = Arrays.stream(shape).reduce(1, Math::multiplyExact);
        if (values != places) {
            throw new IllegalArgumentException(
                    "shape " + Arrays.toString(shape) + " holds " + places + " values, not " + values);
        }
    }
}
