package cs336.basics;

import cs336.torch.DType;
import cs336.torch.Device;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.ScalarTypeOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch.ScalarType;

/**
 * RMS normalization x ÷ √(mean(x²) + ε) · weight over the last dimension, […, width] → […, width], in plain tensor
 * operations. For 16-bit inputs it computes in fp32 and casts the result back. Parameter {@code weight} [width],
 * initialized to 1.
 *
 * <p>Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
 */
public final class RmsNorm extends NnModule {
    private static final long[] LAST = {-1};

    private final double eps;
    private final Tensor weight;

    /** Creates a layer for inputs of this width with ε = 1e-5. */
    public RmsNorm(int width, Device device, DType dtype) {
        this(width, Normalization.EPS, device, dtype);
    }

    /**
     * Creates a layer for inputs of this width.
     *
     * @throws IllegalArgumentException if the width is below 1 or ε is not positive
     */
    public RmsNorm(int width, double eps, Device device, DType dtype) {
        TransformerConfig.requirePositive("width", width);
        this.eps = TransformerConfig.requirePositive("eps", eps);
        weight = parameter("weight", Initialization.ones(width, device, dtype));
    }

    @Override
    protected Tensor compute(Tensor input) {
        Normalization.requireWidth(input, weight.size(0));
        ScalarType type = input.scalar_type();
        boolean narrow = input.element_size() < Float.BYTES;
        Tensor x = narrow ? input.to(ScalarType.Float) : input;
        Tensor meanSquare = x.square().mean(LAST, true, new ScalarTypeOptional()); // […, 1]
        Tensor scale = meanSquare.add(new Scalar(eps)).rsqrt();
        Tensor y = x.mul(scale).mul(weight);
        return narrow ? y.to(type) : y;
    }

    /** The factory of this layer, registered under the name {@code rmsnorm}. */
    public static final class RmsNormFactory implements Normalization {
        @Override
        public String name() {
            return "rmsnorm";
        }

        @Override
        public NnModule create(int width, double eps, Device device, DType dtype) {
            return new RmsNorm(width, eps, device, dtype);
        }
    }
}
