package cs336.basics;

import cs336.torch.Autocast;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.Arrays;
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
    private final boolean narrow;
    /** e^(i·angle), complex [contextLength, 1, d/2]. */
    private final Tensor rotations;

    private final Fuser.FusedFunction rotate;

    /**
     * Precomputes the rotations for positions 0 … contextLength − 1 of heads of this even width.
     *
     * @param dtype type of the model's parameters
     * @throws IllegalArgumentException if θ is not positive, the width is odd or below 2, there is no position, or
     *     there are more than 2³⁰ rotations
     */
    public RotaryEmbedding(double theta, int headDim, int contextLength, Device device, DType dtype) {
        this(theta, headDim, contextLength, new Fuser.NoFuser(), device, dtype);
    }

    /** Precomputes the rotations. The fuser executes {@link #apply}. */
    RotaryEmbedding(double theta, int headDim, int contextLength, Fuser fuser, Device device, DType dtype) {
        if (!(theta > 0 && Double.isFinite(theta))) {
            throw new IllegalArgumentException("theta must be positive and finite, not " + theta);
        }
        if (headDim < 2 || headDim % 2 != 0) {
            throw new IllegalArgumentException("headDim must be even and at least 2, not " + headDim);
        }
        TransformerConfig.requirePositive("contextLength", contextLength);
        if (!hasTable(contextLength, headDim)) {
            throw new IllegalArgumentException("contextLength " + contextLength + " × headDim " + headDim
                    + " must be below 2^31, because the rotations are one array");
        }
        Tensors.requireFloating("dtype", dtype);
        this.headDim = headDim;
        narrow = dtype.bytes() < Float.BYTES;
        rotate = fuser.of(in -> rotated(in[0]));
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

    /** Returns whether the rotations of this many positions fit into one Java array. */
    public static boolean hasTable(int contextLength, int headDim) {
        return (long) contextLength * headDim <= Integer.MAX_VALUE - 8;
    }

    /**
     * Rotates queries or keys. Inputs of a 16-bit type are rotated in fp32. The result then has the type of the input,
     * except under autocast with fp32 parameters, where it is fp32.
     *
     * @param x [B, T, H·d], at most as many positions as the context
     * @return [B, T, H, d]
     * @throws IllegalArgumentException if x has another shape, or is not floating-point
     * @throws IllegalStateException if this is closed
     */
    public Tensor apply(Tensor x) {
        if (rotations.isNull()) {
            throw new IllegalStateException("this rotary embedding is closed");
        }
        Tensors.requireFloating("x", x);
        if (x.dim() != 3 || x.size(1) > rotations.size(0) || x.size(2) % headDim != 0) {
            throw new IllegalArgumentException("x must have the shape [batch, at most " + rotations.size(0)
                    + " positions, heads · " + headDim + "], not " + Arrays.toString(Tensors.shape(x)));
        }
        return rotate.apply(x);
    }

    private Tensor rotated(Tensor x) {
        long batch = x.size(0);
        long positions = x.size(1);
        Tensor wide = x.element_size() < Float.BYTES ? x.to(ScalarType.Float) : x;
        Tensor pairs = torch.view_as_complex(
                wide.contiguous().view(batch, positions, x.size(2) / headDim, headDim / 2, 2)); // [B, T, H, d/2]
        Tensor rotated = pairs.mul(rotations.narrow(0, 0, positions));
        Tensor result = torch.view_as_real(rotated).flatten(-2, -1);
        return narrow || !Autocast.isEnabled(x) ? result.to(x.scalar_type()) : result;
    }

    @Override
    public void close() {
        rotate.close();
        rotations.close();
    }
}
