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
import java.util.function.BinaryOperator;
import org.bytedeco.pytorch.DoubleOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;

/** The normalisations that {@code cs336 norms} compares. */
public enum NormImplementation {
    /** {@link RmsNorm}: tensor operations, differentiated by PyTorch. */
    PLAIN("plain", RmsNorm::new),
    /** {@link RmsNormFunction}: tensor operations with hand-derived gradients. */
    MANUAL(
            "manual",
            (width, device, dtype) -> new WeightedNorm(
                    width, device, dtype, (x, weight) -> RmsNormFunction.apply(x, weight, Normalization.EPS))),
    /** {@link FusedRmsNorm}: the kernels of this project. */
    FUSED("rmsnorm-fused", FusedRmsNormLayer::new),
    /** {@link RmsNorm} in kernels that the compiler of this project generates. */
    COMPILED(
            "rmsnorm-compiled",
            (width, device, dtype) -> Normalization.named("rmsnorm-compiled").create(width, device, dtype)),
    /** PyTorch's {@code layer_norm}, which also subtracts the mean and adds a bias. */
    LAYER_NORM("layernorm", LayerNorm::new),
    /** PyTorch's {@code rms_norm}. */
    TORCH_RMS_NORM("torch-rms_norm", (width, device, dtype) -> {
        long[] shape = {width};
        return new WeightedNorm(
                width,
                device,
                dtype,
                (x, weight) ->
                        torch.rms_norm(x, shape, new TensorOptional(weight), new DoubleOptional(Normalization.EPS)));
    });

    @FunctionalInterface
    private interface NormConstructor {
        NnModule create(int width, Device device, DType dtype);
    }

    private final String label;
    private final NormConstructor constructor;

    NormImplementation(String label, NormConstructor constructor) {
        this.label = label;
        this.constructor = constructor;
    }

    /** Returns a new layer for rows of this width. */
    public NnModule create(int width, Device device, DType dtype) {
        return constructor.create(width, device, dtype);
    }

    /**
     * Parses a name of the column {@code implementation}.
     *
     * @throws IllegalArgumentException if the name is unknown; the message lists the known ones
     */
    public static NormImplementation parse(String label) {
        return ArgumentCheck.oneOf("implementation", label, List.of(values()));
    }

    @Override
    public String toString() {
        return label;
    }

    /** A layer that calls a function with its input and a parameter {@code weight} [width], initialised to 1. */
    private static final class WeightedNorm extends NnModule {
        private final Tensor weight;
        private final BinaryOperator<Tensor> norm;

        WeightedNorm(int width, Device device, DType dtype, BinaryOperator<Tensor> norm) {
            this.norm = norm;
            try (var scope = MemoryScope.open()) {
                weight = parameter("weight", torch.ones(new long[] {width}, device.options(dtype)));
            }
        }

        @Override
        protected Tensor compute(Tensor x) {
            return norm.apply(x, weight);
        }
    }
}
