package cs336.basics;

import cs336.torch.DType;
import cs336.torch.Device;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;

/**
 * Layer normalization (x − mean) ÷ √(variance + ε) · weight + bias over the last dimension, […, width] → […, width],
 * with PyTorch's fused operator. Parameters {@code weight} and {@code bias} [width], initialized to 1 and 0.
 */
public final class LayerNorm extends NnModule {
    private final long[] shape;
    private final double eps;
    private final Tensor weight;
    private final Tensor bias;

    /** Creates a layer for inputs of this width with ε = 1e-5. */
    public LayerNorm(int width, Device device, DType dtype) {
        this(width, Normalization.EPS, device, dtype);
    }

    /**
     * Creates a layer for inputs of this width.
     *
     * @throws IllegalArgumentException if the width is below 1 or ε is not positive
     */
    public LayerNorm(int width, double eps, Device device, DType dtype) {
        TransformerConfig.requirePositive("width", width);
        this.eps = TransformerConfig.requirePositive("eps", eps);
        shape = new long[] {width};
        weight = parameter("weight", Initialization.ones(width, device, dtype));
        bias = parameter("bias", Initialization.zeros(width, device, dtype));
    }

    @Override
    protected Tensor compute(Tensor x) {
        Normalization.requireWidth(x, shape[0]);
        boolean useCudnn = false;
        return torch.layer_norm(x, shape, new TensorOptional(weight), new TensorOptional(bias), eps, useCudnn);
    }

    /** The factory of this layer, registered under the name {@code layernorm}. */
    public static final class LayerNormFactory implements Normalization {
        @Override
        public String name() {
            return "layernorm";
        }

        @Override
        public int parametersPerFeature() {
            return 2;
        }

        @Override
        public NnModule create(int width, double eps, Device device, DType dtype) {
            return new LayerNorm(width, eps, device, dtype);
        }
    }
}
