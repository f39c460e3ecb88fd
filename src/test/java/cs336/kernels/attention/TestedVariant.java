package cs336.kernels.attention;

import cs336.torch.DType;
import java.util.EnumSet;
import java.util.Set;

/**
 * A form of attention, and what it promises.
 *
 * @param name of its {@link cs336.basics.Attention}
 * @param form what is tested
 * @param types of inputs that it takes
 * @param products of operands in fp32
 * @param dQRepeats whether dQ has the same bits each time, as all other results must have
 */
record TestedVariant(String name, FlashVariant form, Set<DType> types, Products products, boolean dQRepeats) {
    static final Set<DType> HALVES = EnumSet.of(DType.BFLOAT16, DType.FLOAT16);
    static final Set<DType> FP32 = EnumSet.of(DType.FLOAT32);

    /** How exactly fp32 operands are multiplied. 16-bit operands are multiplied exactly by all. */
    enum Products {
        /** As they are. */
        FP32(0),
        /** Rounded to 11 significant bits. */
        TF32(0x1p-11),
        /** As the sum of two TF32 numbers each, without the product of the second ones. */
        TF32_THREE_TIMES(0x1p-21);

        private final double rounding;

        Products(double rounding) {
            this.rounding = rounding;
        }

        /** Relative error of an operand of this type. */
        double of(DType type) {
            return type == DType.FLOAT32 ? rounding : 0;
        }
    }

    /**
     * Relative error of a sum of so many terms in fp32, whose roundings are a random walk, and of what is done with it.
     */
    static double ofSums(long terms) {
        return (8 + Math.sqrt(terms)) * 0x1p-24;
    }

    /** Relative error that results of this type have from the roundings of operands and of themselves. */
    double rounding(DType type) {
        return switch (type) {
            case BFLOAT16 -> 0x1p-8;
            case FLOAT16 -> 0x1p-11;
            default -> 2 * products.of(type); // of either operand
        };
    }

    @Override
    public String toString() {
        return form.toString();
    }
}
