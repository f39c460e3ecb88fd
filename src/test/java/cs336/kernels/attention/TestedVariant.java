package cs336.kernels.attention;

import cs336.torch.DType;
import java.util.EnumSet;
import java.util.Set;

/**
 * A variant of attention with the properties that its tests rely on.
 *
 * @param name name of its {@link cs336.basics.Attention}
 * @param variant the variant
 * @param types dtypes of inputs that it supports
 * @param precision precision of its matrix multiplications
 * @param dQRepeats whether dQ is bitwise reproducible, as all other results must be
 */
record TestedVariant(String name, FlashVariant variant, Set<DType> types, GemmPrecision precision, boolean dQRepeats) {
    static final Set<DType> HALVES = EnumSet.of(DType.BFLOAT16, DType.FLOAT16);
    static final Set<DType> FP32 = EnumSet.of(DType.FLOAT32);

    /** The precision of fp32 operands in matrix multiplications. 16-bit operands are always multiplied exactly. */
    enum GemmPrecision {
        /** Not rounded. */
        FP32(0),
        /** Rounded to 11 significant bits. */
        TF32(0x1p-11),
        /** Sums of two TF32 numbers, without the product of the two smaller ones. */
        TF32_THREE_TIMES(0x1p-21);

        private final double rounding;

        GemmPrecision(double rounding) {
            this.rounding = rounding;
        }

        /** Returns the relative error of an operand of this type. */
        double of(DType type) {
            return type == DType.FLOAT32 ? rounding : 0;
        }
    }

    /** Returns the relative error of an fp32 sum, whose rounding errors are a random walk, and of its further use. */
    static double sumError(long terms) {
        return (8 + Math.sqrt(terms)) * 0x1p-24;
    }

    /** Returns the relative error of a result of this type, from rounding its operands and the result itself. */
    double rounding(DType type) {
        return switch (type) {
            case BFLOAT16 -> 0x1p-8;
            case FLOAT16 -> 0x1p-11;
            default -> 2 * precision.of(type); // of both operands
        };
    }

    @Override
    public String toString() {
        return variant.toString();
    }
}
