package cs336.kernels.norms;

import cs336.basics.NnModule;
import cs336.basics.Normalization;
import cs336.basics.TransformerConfig;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * {@link FusedRmsNorm} as a layer, a drop-in replacement for {@link cs336.basics.RmsNorm}: same formula and same
 * parameter {@code weight} [width], initialized to 1.
 */
public final class FusedRmsNormLayer extends NnModule {
    private final double eps;
    private final Tensor weight;

    /** Creates a layer for inputs […, width] with ε = 1e-5. */
    public FusedRmsNormLayer(int width, Device device, DType dtype) {
        this(width, Normalization.EPS, device, dtype);
    }

    /**
     * Creates a layer for inputs […, width].
     *
     * @throws IllegalArgumentException if the width is below 1 or ε is not positive
     */
    public FusedRmsNormLayer(int width, double eps, Device device, DType dtype) {
        TransformerConfig.requirePositive("width", width);
        this.eps = TransformerConfig.requirePositive("eps", eps);
        try (var scope = MemoryScope.open()) {
            weight = parameter("weight", torch.ones(new long[] {width}, device.options(dtype)));
        }
    }

    @Override
    protected Tensor compute(Tensor input) {
        return FusedRmsNorm.apply(input, weight, eps);
    }

    /** The factory of this layer, registered under the name {@code rmsnorm-fused}. */
    public static final class FusedRmsNormFactory implements Normalization {
        @Override
        public String name() {
            return "rmsnorm-fused";
        }

        @Override
        public NnModule create(int width, double eps, Device device, DType dtype) {
            return new FusedRmsNormLayer(width, eps, device, dtype);
        }
    }
}
