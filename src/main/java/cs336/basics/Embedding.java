package cs336.basics;

import cs336.torch.DType;
import cs336.torch.Device;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * An embedding table: int64 or int32 indices […] → rows […, width]. Parameter {@code weight} [count, width]. An index
 * out of range throws an {@link IllegalArgumentException} on the CPU, and triggers a device assertion on CUDA.
 */
public final class Embedding extends NnModule {
    private final Tensor weight;

    /**
     * Creates a table of {@code count} rows of normal values with mean 0, truncated at ±3 standard deviations.
     *
     * @param std the standard deviation before truncation
     * @throws IllegalArgumentException if a size is below 1, or the standard deviation is negative or not finite
     */
    public Embedding(int count, int width, double std, Device device, DType dtype) {
        TransformerConfig.requirePositive("count", count);
        TransformerConfig.requirePositive("width", width);
        TrainedParameters.requireRate("std", std);
        weight = parameter("weight", Initialization.truncatedNormal(std, device, dtype, count, width));
    }

    @Override
    protected Tensor compute(Tensor indices) {
        DType type = DType.of(indices);
        if (type != DType.INT64 && type != DType.INT32) {
            throw new IllegalArgumentException("indices must be int64 or int32, not " + type);
        }
        try {
            return torch.embedding(weight, indices);
        } catch (RuntimeException e) {
            if (String.valueOf(e.getMessage()).contains("index out of range")) { // PyTorch checks it only on the CPU
                throw new IllegalArgumentException(
                        "indices must be from 0 to " + (weight.size(0) - 1) + ", the last row of the table", e);
            }
            throw e;
        }
    }

    /** Returns the table, for example to tie an output head to it with {@link Linear#Linear(Tensor)}. */
    public Tensor weight() {
        return weight;
    }
}
