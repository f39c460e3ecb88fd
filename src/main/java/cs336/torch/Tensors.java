package cs336.torch;

import java.util.Arrays;
import org.bytedeco.javacpp.DoublePointer;
import org.bytedeco.javacpp.FloatPointer;
import org.bytedeco.javacpp.LongPointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** Conversions between Java arrays and tensors, in row-major order. New tensors are on the CPU and own their memory. */
public final class Tensors {
    static {
        Torch.load();
    }

    private Tensors() {}

    /**
     * Returns an fp64 tensor with these values and this shape.
     *
     * @throws IllegalArgumentException if the number of values does not match the shape
     */
    public static Tensor of(double[] values, long... shape) {
        try (var scope = MemoryScope.open()) {
            requireFits(values.length, shape);
            return scope.escape(copy(new DoublePointer(values), DType.FLOAT64, shape));
        }
    }

    /** Returns an fp32 tensor; see {@link #of(double[], long...)}. */
    public static Tensor of(float[] values, long... shape) {
        try (var scope = MemoryScope.open()) {
            requireFits(values.length, shape);
            return scope.escape(copy(new FloatPointer(values), DType.FLOAT32, shape));
        }
    }

    /** Returns an int64 tensor; see {@link #of(double[], long...)}. */
    public static Tensor of(long[] values, long... shape) {
        try (var scope = MemoryScope.open()) {
            requireFits(values.length, shape);
            return scope.escape(copy(new LongPointer(values), DType.INT64, shape));
        }
    }

    /**
     * Returns the values of a tensor of any dtype on any device as doubles.
     *
     * @throws IllegalStateException inside of a function that is being recorded
     */
    public static double[] toDoubles(Tensor tensor) {
        requireReadable();
        try (var scope = MemoryScope.open()) {
            double[] values = new double[Math.toIntExact(tensor.numel())];
            Tensor onCpu = tensor.detach()
                    .to(Device.cpu().toTorch(), DType.FLOAT64.scalarType())
                    .contiguous();
            new DoublePointer(onCpu.data_ptr()).get(values);
            return values;
        }
    }

    /**
     * Returns the values of an int64 tensor on any device.
     *
     * @throws IllegalStateException inside of a function that is being recorded
     */
    public static long[] toLongs(Tensor tensor) {
        requireReadable();
        try (var scope = MemoryScope.open()) {
            long[] values = new long[Math.toIntExact(tensor.numel())];
            Tensor onCpu =
                    tensor.to(Device.cpu().toTorch(), DType.INT64.scalarType()).contiguous();
            new LongPointer(onCpu.data_ptr()).get(values);
            return values;
        }
    }

    /** Returns the shape of a tensor. */
    public static long[] shape(Tensor tensor) {
        long[] shape = new long[(int) tensor.dim()];
        for (int i = 0; i < shape.length; i++) {
            shape[i] = tensor.size(i);
        }
        return shape;
    }

    /** Returns the shape without its last dimension: [B, T, d] → [B, T]. */
    public static long[] leadingShape(Tensor tensor) {
        return Arrays.copyOf(shape(tensor), (int) tensor.dim() - 1);
    }

    private static Tensor copy(Pointer values, DType dtype, long[] shape) {
        Tensor own = OperatorInterceptor.hidden(
                () -> // a recorded program must not read the memory of the values
                torch.from_blob(values, shape, Device.cpu().options(dtype)).clone());
        return OperatorInterceptor.isActive() ? own.clone() : own;
    }

    private static void requireReadable() {
        if (OperatorInterceptor.isActive()) {
            throw new IllegalStateException("elements of a tensor cannot be read while its function is recorded");
        }
    }

    private static void requireFits(int values, long[] shape) {
        long elements = Arrays.stream(shape).reduce(1, Math::multiplyExact);
        if (values != elements) {
            throw new IllegalArgumentException("shape " + Arrays.toString(shape) + " has " + elements
                    + " elements, but there are " + values + " values");
        }
    }
}
