package cs336.kernels.norms;

import cs336.basics.LayerNorm;
import cs336.basics.NnModule;
import cs336.basics.Normalization;
import cs336.basics.RmsNorm;
import cs336.bench.ArgumentCheck;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.List;
import org.bytedeco.pytorch.DoubleOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;

/** The normalisations that {@code cs336 norms} compares. */
public enum NormImplementation {
    /** {@link RmsNorm}: plain tensor operations, differentiated by PyTorch. */
    PLAIN("plain") {
        @Override
        NnModule create(int width, Device device, DType dtype) {
            return new RmsNorm(width, device, dtype);
        }
    },
    /** {@link RmsNormFunction}: tensor operations, differentiated by hand. */
    MANUAL("manual") {
        @Override
        NnModule create(int width, Device device, DType dtype) {
            return new GainModule(width, device, dtype) {
                @Override
                protected Tensor compute(Tensor x) {
                    return RmsNormFunction.apply(x, weight, Normalization.EPS);
                }
            };
        }
    },
    /** {@link FusedRmsNorm}: kernels of our own. */
    FUSED("fused") {
        @Override
        NnModule create(int width, Device device, DType dtype) {
            return new FusedRmsNormLayer(width, device, dtype);
        }
    },
    /** PyTorch's {@code layer_norm}, which takes a mean and adds a bias as well. */
    LAYER_NORM("layernorm") {
        @Override
        NnModule create(int width, Device device, DType dtype) {
            return new LayerNorm(width, device, dtype);
        }
    },
    /** PyTorch's {@code rms_norm}. */
    TORCH_RMS_NORM("torch-rms_norm") {
        @Override
        NnModule create(int width, Device device, DType dtype) {
            long[] shape = {width};
            return new GainModule(width, device, dtype) {
                @Override
                protected Tensor compute(Tensor x) {
                    return torch.rms_norm(x, shape, new TensorOptional(weight), new DoubleOptional(Normalization.EPS));
                }
            };
        }
    };

    private final String label;

    NormImplementation(String label) {
        this.label = label;
    }

    /** A layer for rows of this width. */
    abstract NnModule create(int width, Device device, DType dtype);

    /**
     * Reads a name as it stands in the column {@code implementation}.
     *
     * @throws IllegalArgumentException if there is none of it; the message lists those there are
     */
    public static NormImplementation parse(String label) {
        return ArgumentCheck.oneOf("implementation", label, List.of(values()));
    }

    @Override
    public String toString() {
        return label;
    }

    private abstract static class GainModule extends NnModule {
        final Tensor weight;

        GainModule(int width, Device device, DType dtype) {
            try (var scope = MemoryScope.open()) {
                weight = parameter("weight", torch.ones(new long[] {width}, device.options(dtype)));
            }
        }
    }
}
