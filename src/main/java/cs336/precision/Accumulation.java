package cs336.precision;

import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** Four ways to add a number many times over: which type holds the sum, and which the number that is added. */
public enum Accumulation {
    /** Sum and term in fp32. */
    WIDE,
    /** Sum and term in the narrow type: each addition rounds to it. */
    NARROW,
    /** The term in the narrow type, the sum in fp32; PyTorch widens the term when it adds. */
    PROMOTED,
    /** The same, with the term converted to fp32 before. */
    CONVERTED;

    /**
     * Adds the term so many times, one after the other, beginning at 0.
     *
     * @param narrow the narrow type
     * @return the sum
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
