package cs336.kernels.norms;

import cs336.basics.Fuser;
import cs336.basics.LayerNorm;
import cs336.basics.NnModule;
import cs336.basics.Normalization;
import cs336.basics.RmsNorm;
import cs336.torch.DType;
import cs336.torch.Device;
import java.util.function.Function;
import org.bytedeco.pytorch.DoubleOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;

/** The normalizations that {@code cs336 norms} compares. */
public enum NormImplementation implements RowImplementation {
    /** {@link RmsNorm}: tensor operations, differentiated by PyTorch. */
    PLAIN("plain", RmsNorm::new),
    /** {@link RmsNormFunction}: tensor operations with hand-derived gradients. */
    MANUAL(
            "manual",
            (width, device, dtype) ->
                    weighted(width, device, dtype, in -> RmsNormFunction.apply(in[0], in[1], Normalization.EPS))),
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
        return weighted(
                width,
                device,
                dtype,
                in -> torch.rms_norm(in[0], shape, new TensorOptional(in[1]), new DoubleOptional(Normalization.EPS)));
    });

    private final String label;
    private final RowImplementation constructor;

    NormImplementation(String label, RowImplementation constructor) {
        this.label = label;
        this.constructor = constructor;
    }

    /** Returns a layer that calls a function with its input and its weight. */
    private static NnModule weighted(int width, Device device, DType dtype, Function<Tensor[], Tensor> function) {
        return new WeightedLayer(width, device, dtype, Fuser.named(Fuser.NONE).of(function));
    }

    @Override
    public NnModule create(int width, Device device, DType dtype) {
        return constructor.create(width, device, dtype);
    }

    @Override
    public String toString() {
        return label;
    }
}
