package cs336.basics;

import cs336.torch.DType;
import cs336.torch.Device;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** A linear layer x·Wᵀ without bias: […, in] → […, out]. Parameter {@code weight} [out, in]. */
public final class Linear extends NnModule {
    private final Tensor weight;

    /** Creates a layer with random weights of variance 2 ÷ (in + out). */
    public Linear(int in, int out, Device device, DType dtype) {
        weight = parameter("weight", Initialization.matrix(out, in, device, dtype));
    }

    /** Creates a layer whose weight another layer owns, such as an output head tied to the token embeddings. */
    Linear(Tensor sharedWeight) {
        weight = share("weight", sharedWeight);
    }

    @Override
    protected Tensor compute(Tensor x) {
        return torch.linear(x, weight);
    }
}
