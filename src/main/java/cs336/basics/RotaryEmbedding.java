package cs336.basics;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;

/**
 * Rotary position embedding: at position t the pair (x₂ᵢ, x₂ᵢ₊₁) of each head is rotated by the angle t·θ^(−2i/d). A
 * pair is treated as a complex number and multiplied by e^(i·angle), so that one multiplication rotates all pairs.
 *
 * <p>Source: Su et al., "RoFormer", 2021, with interleaved pairs as in the paper.
 */
public final class RotaryEmbedding implements AutoCloseable {
    private final int headDim;
    /** e^(i·angle), complex [contextLength, 1, d/2]. */
    private final Tensor rotations;

    /** Precomputes the rotations for positions 0 … contextLength − 1 of heads of this even width. */
    public RotaryEmbedding(double theta, int headDim, int contextLength, Device device, DType dtype) {
        this.headDim = headDim;
        int pairs = headDim / 2;
        double[] rotation = new double[contextLength * pairs * 2];
        for (int t = 0; t < contextLength; t++) {
            for (int i = 0; i < pairs; i++) {
                double angle = t * Math.pow(theta, -2.0 * i / headDim);
                rotation[2 * (t * pairs + i)] = Math.cos(angle);
                rotation[2 * (t * pairs + i) + 1] = Math.sin(angle);
            }
        }
        try (var scope = MemoryScope.open()) {
            DType real = dtype == DType.FLOAT64 ? DType.FLOAT64 : DType.FLOAT32;
            Tensor pairsOfReals = Tensors.of(rotation, contextLength, 1, pairs, 2);
            Tensor onDevice = pairsOfReals.to(device.toTorch(), real.scalarType());
            rotations = MemoryScope.keep(torch.view_as_complex(onDevice));
        }
    }

    /**
     * Rotates queries or keys.
     *
     * @param x [B, T, H·d]; bf16 and fp16 inputs are rotated in fp32, and the result is fp32
     * @return [B, T, H, d]
     */
    public Tensor apply(Tensor x) {
        long batch = x.size(0);
        long positions = x.size(1);
        Tensor wide = x.element_size() < Float.BYTES ? x.to(ScalarType.Float) : x;
        Tensor pairs = torch.view_as_complex(wide.view(batch, positions, -1, headDim / 2, 2)); // [B, T, H, d/2]
        Tensor rotated = pairs.mul(rotations.narrow(0, 0, positions));
        return torch.view_as_real(rotated).flatten(-2, -1);
    }

    @Override
    public void close() {
        rotations.close();
    }
}
