package cs336.torch;

import java.util.Arrays;
import java.util.stream.Collectors;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch.ScalarType;

/** The element types of tensors, with their short names in tables and on the command line. */
public enum DType {
    FLOAT64("fp64", ScalarType.Double, 8),
    FLOAT32("fp32", ScalarType.Float, 4),
    BFLOAT16("bf16", ScalarType.BFloat16, 2),
    FLOAT16("fp16", ScalarType.Half, 2),
    INT64("int64", ScalarType.Long, 8),
    INT32("int32", ScalarType.Int, 4),
    /** The dtype of the random state that PyTorch's fused attention saves for its backward pass. */
    UINT64("uint64", ScalarType.UInt64, 8),
    UINT8("uint8", ScalarType.Byte, 1),
    BOOL("bool", ScalarType.Bool, 1),
    COMPLEX64("complex64", ScalarType.ComplexFloat, 8);

    static {
        Torch.load();
    }

    private static final DType[] ALL = values();

    private final String shortName;
    private final ScalarType scalarType;
    private final int bytes;

    DType(String shortName, ScalarType scalarType, int bytes) {
        this.shortName = shortName;
        this.scalarType = scalarType;
        this.bytes = bytes;
    }

    /** Returns the name in tables and on the command line: {@code fp32}, {@code bf16}, … */
    public String shortName() {
        return shortName;
    }

    /** Returns the corresponding constant of the presets. */
    public ScalarType scalarType() {
        return scalarType;
    }

    /** Returns the size of an element in bytes. */
    public int bytes() {
        return bytes;
    }

    /** Returns whether this is a floating-point type. */
    public boolean isFloatingPoint() {
        return switch (this) {
            case FLOAT64, FLOAT32, BFLOAT16, FLOAT16 -> true;
            case INT64, INT32, UINT64, UINT8, BOOL, COMPLEX64 -> false;
        };
    }

    /** Returns whether this is a floating-point type of 16 bits. */
    public boolean isReducedFloatingPoint() {
        return this == BFLOAT16 || this == FLOAT16;
    }

    /**
     * Returns whether this integer or boolean type represents a value exactly. Complex types round and accept every
     * value.
     */
    boolean represents(double value) {
        return switch (this) {
            case INT64 -> value == Math.rint(value) && value >= Long.MIN_VALUE && value < Long.MAX_VALUE;
            case INT32 -> value == (int) value;
            case UINT64 -> value == Math.rint(value) && value >= 0 && value < 0x1p64;
            case UINT8 -> value == ((int) value & 0xff);
            case BOOL -> value == 0 || value == 1;
            case COMPLEX64 -> true;
            case FLOAT64, FLOAT32, BFLOAT16, FLOAT16 -> throw new IllegalStateException(this + " rounds values");
        };
    }

    /**
     * Returns the element type of a tensor.
     *
     * @throws IllegalArgumentException if it is not one of these
     */
    public static DType of(Tensor tensor) {
        Tensors.requireDefined("tensor", tensor);
        ScalarType scalarType = tensor.scalar_type(); // a new object, not one of the enum's constants
        for (DType dtype : ALL) {
            if (dtype.scalarType.value == scalarType.value) {
                return dtype;
            }
        }
        throw new IllegalArgumentException("tensor has the unsupported dtype " + scalarType);
    }

    /**
     * Returns the type with this short name.
     *
     * @throws IllegalArgumentException if there is none; the message lists the known names
     */
    public static DType parse(String shortName) {
        for (DType dtype : values()) {
            if (dtype.shortName.equals(shortName)) {
                return dtype;
            }
        }
        String known = Arrays.stream(values()).map(DType::shortName).collect(Collectors.joining(", "));
        throw new IllegalArgumentException("dtype '" + shortName + "' is unknown; known: " + known);
    }

    @Override
    public String toString() {
        return shortName;
    }
}
