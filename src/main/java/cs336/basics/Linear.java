package cs336.basics;

import cs336.torch.DType;
import cs336.torch.Device;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** x·Wᵀ without a bias: […, in] → […, out]. Parameter {@code weight} [out, in]. */
public final class Linear extends NnModule {
    private final Tensor weight;

    /** A layer with fresh weights, variance 2 ÷ (in + out). */
    public Linear(int in, int out, Device device, DType dtype) {
        weight = parameter("weight", Initialization.matrix(out, in, device, dtype));
    }

    /** A layer whose weight belongs to another layer, as the token embeddings do in a tied output head. */
    Linear(Tensor sharedWeight) {
        weight = share("weight", sharedWeight);
    }

    @Override
    protected Tensor compute(Tensor x) {
        return torch.linear(x, weight);
    }
}
