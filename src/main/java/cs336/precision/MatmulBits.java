package cs336.precision;

import cs336.bench.Precision;
import cs336.torch.Autocast;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;

/**
 * The significant bits that a matrix multiplication keeps of its fp32 operands. The class multiplies diag(1 + 2⁻ᵏ) by
 * the identity and finds the first k > 0 whose result is 1. This k is the actual precision of the GEMM, which can be
 * lower than that of its dtypes.
 */
public final class MatmulBits {
    private static final int SIZE = 256; // large enough for the usual GEMM kernels of a GPU
    private static final int FP32_BITS = 24;

    private MatmulBits() {}

    /**
     * Returns the significant bits of a matrix multiplication of fp32 matrices in this precision on this device, at
     * most 24. During the call TF32 is allowed or forbidden for the whole process.
     */
    public static int of(Precision precision, Device device) {
        try (var tf32 = Torch.tf32(precision.tf32());
                var scope = MemoryScope.open();
                var noGrad = NoGrad.open();
                Autocast autocast = precision.autocast(device)) {
            Tensor identity = torch.eye(SIZE, device.options(DType.FLOAT32));
            Tensor steps = torch.arange(new Scalar((long) SIZE), device.options(DType.FLOAT32));
            Tensor aboveOne = steps.neg().exp2().add(new Scalar(1.0)); // 1 + 2⁻ᵏ, k = 0, 1, …
            Tensor diagonal = torch.diag(aboveOne).matmul(identity).diagonal().to(ScalarType.Double);
            double[] result = Tensors.toDoubles(diagonal);
            int bits = 1;
            while (bits < FP32_BITS && result[bits] != 1) {
                bits++;
            }
            return bits;
        }
    }
}
