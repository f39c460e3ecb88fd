package cs336.kernels.norms;

import cs336.basics.Fuser;
import cs336.basics.NnModule;
import cs336.torch.DType;
import cs336.torch.Device;
import java.util.function.Function;
import org.bytedeco.pytorch.Tensor;

/** The weighted sums of rows that {@code cs336 weighted-sum} compares. */
enum WeightedSumImplementation implements RowImplementation {
    /** An elementwise multiplication and a sum, differentiated by PyTorch. */
    PLAIN("plain", Fuser.NONE, in -> in[0].mul(in[1]).sum(-1)),
    /** {@link WeightedSum}: the kernels of this project. */
    FUSED("fused", Fuser.NONE, in -> WeightedSum.apply(in[0], in[1])),
    /** The same operators in kernels that the compiler of this project generates. */
    COMPILED("compiled", "compiled", in -> in[0].mul(in[1]).sum(-1));

    private final String label;
    private final String fuser;
    private final Function<Tensor[], Tensor> function;

    WeightedSumImplementation(String label, String fuser, Function<Tensor[], Tensor> function) {
        this.label = label;
        this.fuser = fuser;
        this.function = function;
    }

    @Override
    public NnModule create(int width, Device device, DType dtype) {
        return new WeightedLayer(width, device, dtype, Fuser.named(fuser).of(function));
    }

    @Override
    public String toString() {
        return label;
    }
}
