package cs336.precision;

import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** The dtypes of the accumulator and of the term in a sum of many equal terms. */
public enum Accumulation {
    /** Accumulator and term in fp32. */
    WIDE,
    /** Accumulator and term in the low-precision type: each addition rounds to it. */
    NARROW,
    /**
     * The term in the low-precision type, the accumulator in fp32: type promotion converts the term in each addition.
     */
    PROMOTED,
    /** The same as {@link #PROMOTED}, with an explicit conversion of the term to fp32 before each addition. */
    CONVERTED;

    /**
     * Returns the sum of {@code times} terms, added one at a time to 0 on the CPU.
     *
     * @param narrow the low-precision type
     * @param term the number to add
     */
    public double run(DType narrow, double term, int times) {
        try (var scope = MemoryScope.open()) {
            Tensor sum = scalar(0, this == NARROW ? narrow : DType.FLOAT32);
            Tensor added = scalar(term, this == WIDE ? DType.FLOAT32 : narrow);
            for (int i = 0; i < times; i++) {
                try (var step = MemoryScope.open()) {
                    sum.add_(this == CONVERTED ? added.to(torch.ScalarType.Float) : added);
                }
            }
            return sum.to(torch.ScalarType.Double).item_double();
        }
    }

    private static Tensor scalar(double value, DType dtype) {
        return Tensors.of(new double[] {value}).to(dtype.scalarType());
    }
}
