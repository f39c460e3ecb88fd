package cs336.kernels.attention;

import cs336.basics.Attention;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Random inputs of one size, and the passes over them that benchmarks time. What a pass makes lands in the caller's
 * memory scope.
 */
final class AttentionPasses {
    private final Attention attention;
    private final boolean causal;
    private final Tensor q;
    private final Tensor k;
    private final Tensor v;
    private final Tensor dO;

    /**
     * Draws queries, keys, values and the output's gradient from a normal distribution, into the caller's memory scope.
     */
    AttentionPasses(Attention attention, boolean causal, Device device, DType dtype, long... shape) {
        this.attention = attention;
        this.causal = causal;
        q = torch.randn(shape, device.options(dtype)).set_requires_grad(true);
        k = torch.randn(shape, device.options(dtype)).set_requires_grad(true);
        v = torch.randn(shape, device.options(dtype)).set_requires_grad(true);
        dO = torch.randn(shape, device.options(dtype));
    }

    /** A forward pass that records its graph. */
    Tensor forward() {
        return attention.apply(q, k, v, causal);
    }

    /** A backward pass from an output; its graph stays, for another. */
    void backward(Tensor output) {
        Backward.of(output).with(dO).retainGraph().gradients(q, k, v);
    }

    /** A forward pass and the backward pass through it. */
    void forwardBackward() {
        Backward.of(forward()).with(dO).gradients(q, k, v);
    }

    /** The same, from the sum of the output and into gradients of the inputs, of which there are none before. */
    void forwardSumBackward() {
        dropGradients();
        Backward.of(forward().sum()).run();
    }

    /** A backward pass from an output into gradients of the inputs; its graph goes. */
    void backwardIntoInputs(Tensor output) {
        Backward.of(output).with(dO).run();
    }

    /** Frees the gradients of the inputs. */
    void dropGradients() {
        for (Tensor input : List.of(q, k, v)) {
            input.mutable_grad().reset();
        }
    }
}
