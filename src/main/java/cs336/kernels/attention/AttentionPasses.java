package cs336.kernels.attention;

import cs336.basics.Attention;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The passes that benchmarks time, over random inputs of one shape. Tensors that a pass creates belong to the caller's
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
     * Samples queries, keys, values and the output's gradient from the standard normal distribution, in the caller's
     * memory scope.
     */
    AttentionPasses(Attention attention, boolean causal, Device device, DType dtype, long... shape) {
        this.attention = attention;
        this.causal = causal;
        q = torch.randn(shape, device.options(dtype)).set_requires_grad(true);
        k = torch.randn(shape, device.options(dtype)).set_requires_grad(true);
        v = torch.randn(shape, device.options(dtype)).set_requires_grad(true);
        dO = torch.randn(shape, device.options(dtype));
    }

    /** Runs a forward pass that records the autograd graph. */
    Tensor forward() {
        return attention.apply(q, k, v, causal);
    }

    /** Runs a backward pass from an output and retains the graph. */
    void backward(Tensor output) {
        Backward.of(output).with(dO).retainGraph().gradients(q, k, v);
    }

    /** Runs a forward pass and its backward pass; gradients are returned by autograd, not stored in the inputs. */
    void forwardBackward() {
        Backward.of(forward()).with(dO).gradients(q, k, v);
    }

    /** Frees the inputs' gradients, then runs a forward pass and a backward pass from the sum of its output. */
    void forwardSumBackward() {
        freeGradients();
        Backward.of(forward().sum()).run();
    }

    /** Runs a backward pass from an output, accumulates gradients in the inputs, and frees the graph. */
    void backwardIntoInputs(Tensor output) {
        Backward.of(output).with(dO).run();
    }

    /** Frees the gradients of the inputs. */
    void freeGradients() {
        for (Tensor input : List.of(q, k, v)) {
            input.mutable_grad().reset();
        }
    }
}
