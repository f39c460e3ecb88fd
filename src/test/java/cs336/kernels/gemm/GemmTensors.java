package cs336.kernels.gemm;

import cs336.torch.DType;
import cs336.torch.Device;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** Operands and references of the tests of matrix multiplications on the first GPU. */
final class GemmTensors {
    static final Device GPU = Device.cuda(0);

    private GemmTensors() {}

    static Tensor random(long rows, long columns) {
        return torch.randn(new long[] {rows, columns}, GPU.options(DType.FLOAT32));
    }

    static Tensor wide(Tensor x) {
        return x.to(DType.FLOAT64.scalarType());
    }

    /** Rounds to TF32, 11 significant bits, ties away from zero, in double precision. */
    static Tensor rounded(Tensor x) {
        Tensor bits = x.contiguous().view(torch.ScalarType.Int);
        return wide(
                bits.add(new Scalar(1 << 12)).__and__(new Scalar(-(1 << 13))).view(torch.ScalarType.Float));
    }

    /** Fills memory that the next result of this size takes with NaN, so that elements that are not written show. */
    static void fillWithNaN(DType type, long rows, long columns) {
        torch.full(new long[] {rows, columns}, new Scalar(Double.NaN), GPU.options(type))
                .close();
    }

    /** Returns the norm of the error over the norm of the exact result. */
    static double error(Tensor found, Tensor exact) {
        return found.sub(exact).norm().item_double() / exact.norm().item_double();
    }
}
