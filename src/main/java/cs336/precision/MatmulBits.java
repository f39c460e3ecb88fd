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
 * How many bits of its operands a matrix product sees. Whatever a program claims to compute in, this is what it does:
 * of the fp32 numbers 1 + 2⁻ᵏ, multiplied by 1, those come out that the product can tell from 1.
 */
public final class MatmulBits {
    private static final int SIZE = 256; // large enough for a card's usual kernels
    private static final int FP32_BITS = 24;

    private MatmulBits() {}

    /** The significant bits that a product of fp32 matrices carries in this precision on this device. */
    public static int of(Precision precision, Device device) {
        Torch.allowTf32(precision.tf32());
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open();
                Autocast autocast = precision.autocast(device)) {
            Tensor identity = torch.eye(SIZE, device.options(DType.FLOAT32));
            Tensor steps = torch.arange(new Scalar((long) SIZE), device.options(DType.FLOAT32));
            Tensor aboveOne = steps.neg().exp2().add(new Scalar(1.0)); // 1 + 2⁻ᵏ, k = 0, 1, …
            Tensor products = torch.diag(aboveOne).matmul(identity).diagonal().to(ScalarType.Double);
            double[] seen = Tensors.toDoubles(products);
            int bits = 1;
            while (bits < FP32_BITS && seen[bits] != 1) {
                bits++;
            }
            return bits;
        } finally {
            Torch.allowTf32(false);
        }
    }
}
