package cs336.basics;

import cs336.torch.DType;
import cs336.torch.Device;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** An embedding table: int64 indices […] → rows […, width]. Parameter {@code weight} [count, width]. */
public final class Embedding extends NnModule {
    private final Tensor weight;

    /** Creates a table of {@code count} rows, initialized with this standard deviation. */
    public Embedding(int count, int width, double std, Device device, DType dtype) {
        weight = parameter("weight", Initialization.truncatedNormal(std, device, dtype, count, width));
    }

    @Override
    protected Tensor compute(Tensor indices) {
        return torch.embedding(weight, indices);
    }

    Tensor weight() {
        return weight;
    }
}
