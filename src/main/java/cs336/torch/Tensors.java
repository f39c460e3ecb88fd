package cs336.torch;

import java.util.Arrays;
import java.util.Objects;
import org.bytedeco.javacpp.DoublePointer;
import org.bytedeco.javacpp.FloatPointer;
import org.bytedeco.javacpp.LongPointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Conversions between Java arrays and tensors, in row-major order. New tensors are on the CPU, own their memory, and
 * are in the caller's memory scope.
 */
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
        Objects.requireNonNull(shape, "shape must not be null");
        try (var scope = MemoryScope.open()) {
            requireFits(values.length, shape);
            return scope.escape(copy(new DoublePointer(values), DType.FLOAT64, shape));
        }
    }

    /** Returns an fp32 tensor; see {@link #of(double[], long...)}. */
    public static Tensor of(float[] values, long... shape) {
        Objects.requireNonNull(shape, "shape must not be null");
        try (var scope = MemoryScope.open()) {
            requireFits(values.length, shape);
            return scope.escape(copy(new FloatPointer(values), DType.FLOAT32, shape));
        }
    }

    /** Returns an int64 tensor; see {@link #of(double[], long...)}. */
    public static Tensor of(long[] values, long... shape) {
        Objects.requireNonNull(shape, "shape must not be null");
        try (var scope = MemoryScope.open()) {
            requireFits(values.length, shape);
            return scope.escape(copy(new LongPointer(values), DType.INT64, shape));
        }
    }

    /**
     * Returns a tensor of this dtype and shape. Values are rounded to a floating-point or complex dtype.
     *
     * @throws IllegalArgumentException if the number of values does not match the shape, or a value of an integer type
     *     is not whole or not in its range
     */
    public static Tensor of(double[] values, DType dtype, long... shape) {
        Objects.requireNonNull(shape, "shape must not be null");
        Objects.requireNonNull(values, "values must not be null");
        for (double value : values) {
            if (!dtype.isFloatingPoint() && !dtype.represents(value)) {
                throw new IllegalArgumentException("value " + value + " cannot be represented in " + dtype);
            }
        }
        try (var scope = MemoryScope.open()) {
            return scope.escape(of(values, shape).to(dtype.scalarType()));
        }
    }

    /** Returns a tensor of the given type; see {@link #of(double[], DType, long...)}. */
    public static Tensor of(long[] values, DType dtype, long... shape) {
        Objects.requireNonNull(shape, "shape must not be null");
        Objects.requireNonNull(values, "values must not be null");
        for (long value : values) {
            if (dtype == DType.INT32 && value != (int) value
                    || dtype == DType.UINT64 && value < 0
                    || dtype == DType.UINT8 && value != (value & 0xff)
                    || dtype == DType.BOOL && value >> 1 != 0) {
                throw new IllegalArgumentException("value " + value + " cannot be represented in " + dtype);
            }
        }
        try (var scope = MemoryScope.open()) {
            return scope.escape(of(values, shape).to(dtype.scalarType()));
        }
    }

    /** Returns a tensor of the given type; see {@link #of(double[], DType, long...)}. */
    public static Tensor of(float[] values, DType dtype, long... shape) {
        Objects.requireNonNull(shape, "shape must not be null");
        double[] wide = new double[values.length];
        for (int i = 0; i < wide.length; i++) {
            wide[i] = values[i];
        }
        return of(wide, dtype, shape);
    }

    /**
     * Returns the values of a tensor on any device as doubles, in row-major order. Waits for the device. Integers above
     * 2⁵³ are rounded; use {@link #toLongs}. Returns only the real parts of complex values.
     *
     * @throws IllegalArgumentException if the tensor is null, closed or undefined
     * @throws IllegalStateException inside of a function that is being recorded
     */
    public static double[] toDoubles(Tensor tensor) {
        requireDefined("tensor", tensor);
        OperatorInterceptor.refuseRead();
        try (var scope = MemoryScope.open()) {
            double[] values = new double[Math.toIntExact(tensor.numel())];
            if (values.length == 0) {
                return values;
            }
            Tensor onCpu = tensor.detach()
                    .to(Device.cpu().toTorch(), DType.FLOAT64.scalarType())
                    .resolve_neg()
                    .contiguous();
            new DoublePointer(onCpu.data_ptr()).get(values);
            return values;
        }
    }

    /**
     * Returns the values of an integer or boolean tensor on any device, in row-major order. Waits for the device.
     *
     * @throws IllegalArgumentException if the tensor is null, closed or undefined, or has a floating-point or complex
     *     type
     * @throws IllegalStateException inside of a function that is being recorded
     */
    public static long[] toLongs(Tensor tensor) {
        requireDefined("tensor", tensor);
        OperatorInterceptor.refuseRead();
        if (tensor.is_floating_point() || tensor.is_complex()) {
            throw new IllegalArgumentException("tensor must have an integer type, not " + tensor.scalar_type()
                    + "; use toDoubles, which does not truncate");
        }
        try (var scope = MemoryScope.open()) {
            long[] values = new long[Math.toIntExact(tensor.numel())];
            if (values.length == 0) {
                return values;
            }
            Tensor onCpu = tensor.to(Device.cpu().toTorch(), DType.INT64.scalarType())
                    .resolve_neg()
                    .contiguous();
            new LongPointer(onCpu.data_ptr()).get(values);
            return values;
        }
    }

    /**
     * Checks that a tensor can be used and is floating-point.
     *
     * @param name name of the argument in messages
     * @throws IllegalArgumentException if it is null, closed, undefined or of another type
     */
    public static void requireFloating(String name, Tensor tensor) {
        requireDefined(name, tensor);
        if (!tensor.is_floating_point()) {
            throw new IllegalArgumentException(name + " must be floating-point, not " + DType.of(tensor));
        }
    }

    /**
     * Checks that a dtype is floating-point.
     *
     * @param name name of the argument in messages
     * @throws IllegalArgumentException if it is another one
     */
    public static void requireFloating(String name, DType dtype) {
        if (!Objects.requireNonNull(dtype, name + " must not be null").isFloatingPoint()) {
            throw new IllegalArgumentException(name + " must be floating-point, not " + dtype);
        }
    }

    /**
     * Checks that a tensor can be used.
     *
     * @param name name of the argument in messages
     * @throws IllegalArgumentException if it is null, closed or undefined
     */
    public static void requireDefined(String name, Tensor tensor) {
        if (tensor == null) {
            throw new IllegalArgumentException(name + " must not be null");
        }
        if (tensor.isNull()) {
            throw new IllegalArgumentException(name + " is closed; its memory scope has ended");
        }
        if (!tensor.defined()) {
            throw new IllegalArgumentException(name + " is undefined, like the gradient of a leaf without one");
        }
    }

    /**
     * Checks that a tensor can be used and has this shape.
     *
     * @param name name of the argument in messages
     * @throws IllegalArgumentException if it is null, closed or undefined, or has another shape
     */
    public static void requireShape(String name, Tensor tensor, long[] shape) {
        requireDefined(name, tensor);
        if (!Arrays.equals(shape(tensor), shape)) {
            throw new IllegalArgumentException(
                    name + " has the shape " + Arrays.toString(shape) + ", not " + Arrays.toString(shape(tensor)));
        }
    }

    /**
     * Returns the shape of a tensor.
     *
     * @throws IllegalArgumentException if the tensor is null, closed or undefined
     */
    public static long[] shape(Tensor tensor) {
        requireDefined("tensor", tensor);
        long[] shape = new long[(int) tensor.dim()];
        for (int i = 0; i < shape.length; i++) {
            shape[i] = tensor.size(i);
        }
        return shape;
    }

    /**
     * Returns the shape without its last dimension: [B, T, d] → [B, T].
     *
     * @throws IllegalArgumentException if the tensor has no dimension
     */
    public static long[] leadingShape(Tensor tensor) {
        requireDefined("tensor", tensor);
        if (tensor.dim() == 0) {
            throw new IllegalArgumentException("tensor must have at least one dimension");
        }
        return Arrays.copyOf(shape(tensor), (int) tensor.dim() - 1);
    }

    private static Tensor copy(Pointer values, DType dtype, long[] shape) {
        Tensor own = OperatorInterceptor.hidden(
                () -> // a recorded program must not read the memory of the values
                torch.from_blob(values, shape, Device.cpu().options(dtype)).clone());
        return OperatorInterceptor.isActive() ? own.clone() : own;
    }

    private static void requireFits(int values, long[] shape) {
        double elements = Arrays.stream(shape).mapToDouble(size -> size).reduce(1, (a, b) -> a * b);
        if (Arrays.stream(shape).anyMatch(size -> size < 0)) {
            throw new IllegalArgumentException("shape " + Arrays.toString(shape) + " has a negative size");
        }
        if (values != elements) {
            throw new IllegalArgumentException("shape " + Arrays.toString(shape) + " has " + Math.round(elements)
                    + " elements, but there are " + values + " values");
        }
        double strides =
                Arrays.stream(shape).mapToDouble(size -> Math.max(1, size)).reduce(1, (a, b) -> a * b);
        if (strides >= Long.MAX_VALUE) {
            throw new IllegalArgumentException(
                    "the sizes of an empty tensor, without those that are 0, must have a product"
                            + " below 2^63, unlike the shape " + Arrays.toString(shape));
        }
    }
}
