package cs336.kernels.gemm;

import cs336.torch.DType;
import cs336.torch.Device;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/** Operands and references of the tests of matrix multiplications on the first GPU. */
final class GemmTensors {
    static final Device GPU = Device.cuda(0);

    private GemmTensors() {}

    /** Returns random numbers, none of which lies in the middle between two TF32 numbers; see {@link #rounded}. */
    static Tensor random(long rows, long columns) {
        Tensor x = torch.randn(new long[] {rows, columns}, GPU.options(DType.FLOAT32));
        x.view(torch.ScalarType.Int).bitwise_or_(new Scalar(1));
        return x;
    }

    /** Returns a random matrix whose address is not a multiple of 16 bytes. */
    static Tensor unaligned(long rows, long columns) {
        return random(1, 1 + rows * columns)
                .flatten()
                .narrow(0, 1, rows * columns)
                .view(rows, columns);
    }

    static Tensor wide(Tensor x) {
        return x.to(DType.FLOAT64.scalarType());
    }

    /**
     * Rounds to TF32, 11 significant bits, ties away from zero, in double precision. Operands that a kernel loads with
     * TMA are rounded with ties to even, so results may only be compared for operands without ties.
     */
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

    /** Returns weights with which the argument of GELU or SiLU has a standard deviation of 4 for random inputs. */
    static Tensor[] weights(Epilogue epilogue, long columns, long depth) {
        Tensor first = random(columns, depth).mul(new Scalar(4 / Math.sqrt(depth)));
        return epilogue == Epilogue.SWIGLU ? new Tensor[] {first, random(columns, depth)} : new Tensor[] {first};
    }

    /** Returns the function of these results, which are side by side in the argument of the epilogue. */
    static Tensor applied(Epilogue epilogue, Tensor... products) {
        return epilogue.of(torch.cat(new TensorVector(products), 1));
    }

    /** Returns the norm of the error over the norm of the exact result. */
    static double error(Tensor found, Tensor exact) {
        return found.sub(exact).norm().item_double() / exact.norm().item_double();
    }
}
