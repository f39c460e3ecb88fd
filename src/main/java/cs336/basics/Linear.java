package cs336.basics;

import cs336.torch.Autocast;
import cs336.torch.DType;
import cs336.torch.Device;
import java.util.Arrays;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** A linear layer x·Wᵀ without bias: […, in] → […, out]. Parameter {@code weight} [out, in]. */
public final class Linear extends NnModule {
    private final Tensor weight;

    /**
     * Creates a layer with random weights of variance 2 ÷ (in + out).
     *
     * @throws IllegalArgumentException if a width is below 1
     */
    public Linear(int in, int out, Device device, DType dtype) {
        TransformerConfig.requirePositive("in", in);
        TransformerConfig.requirePositive("out", out);
        weight = parameter("weight", Initialization.matrix(out, in, device, dtype));
    }

    /** Creates a layer whose weight another layer owns, such as an output head tied to the token embeddings. */
    Linear(Tensor sharedWeight) {
        weight = share("weight", sharedWeight);
    }

    /**
     * Returns the mean cross-entropy of the outputs, which are logits, and stores only some rows of them at a time.
     *
     * @param rows the number of rows that are in memory at a time; see {@link LinearCrossEntropy}
     */
    Tensor crossEntropy(Tensor x, Tensor targets, int rows) {
        return run(() -> LinearCrossEntropy.of(x, weight, targets, rows));
    }

    /** Returns the weight as an operand of a matrix multiplication, cast to the autocast dtype, in a new handle. */
    Tensor operand() {
        return run(() -> Autocast.operand(new Tensor(weight)));
    }

    /**
     * Returns the outputs of several layers with the same input as one differentiable function, whose backward pass
     * writes the gradient of the input once. Without grad mode this is the same as separate calls.
     *
     * @param x […, in]
     * @return a tensor […, out] for each layer, in the caller's memory scope
     * @throws IllegalArgumentException if x does not have the width that all layers accept
     */
    public static Tensor[] jointly(Tensor x, Linear... layers) {
        for (Linear layer : layers) {
            Normalization.requireWidth(x, layer.weight.size(1));
        }
        return GradMode.is_enabled() ? JointLinear.of(x, layers) : separately(x, layers);
    }

    /** Returns the outputs of several layers with the same input. */
    static Tensor[] separately(Tensor x, Linear... layers) {
        return Arrays.stream(layers).map(layer -> layer.forward(x)).toArray(Tensor[]::new);
    }

    /** Returns zeros with the shape and autograd graph of the output; see {@link UnreadLinear}. */
    Tensor unread(Tensor x) {
        return run(() -> UnreadLinear.of(x, weight));
    }

    @Override
    protected Tensor compute(Tensor x) {
        Normalization.requireWidth(x, weight.size(1));
        return torch.linear(x, weight);
    }
}
