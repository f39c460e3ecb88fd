package cs336.basics;

import cs336.torch.Autocast;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.Arrays;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Linear layers x·Wᵀ whose output values are not needed, […, in] → […, out]: the forward pass returns zeros, the
 * backward pass computes the true gradients. Used for the last layer of a checkpointed function, whose recomputation
 * only needs the autograd graph.
 */
final class UnreadLinear extends Linear.JointLinear {
    private static final long[] SCALAR = {};

    /** Returns zeros with the shape, dtype and autograd graph of the output, in the caller's memory scope. */
    static Tensor of(Tensor x, Tensor weight) {
        try (var scope = MemoryScope.open()) {
            return scope.escape(new UnreadLinear().apply(Autocast.operand(x), Autocast.operand(weight))[0]);
        }
    }

    @Override
    protected Tensor[] forward(Context ctx, Tensor... inputs) {
        ctx.save(inputs);
        long[] shape = Tensors.shape(inputs[0]);
        return Arrays.stream(inputs)
                .skip(1)
                .map(weight -> {
                    shape[shape.length - 1] = weight.size(0);
                    return torch.zeros(SCALAR, inputs[0].options()).expand(shape);
                })
                .toArray(Tensor[]::new);
    }
}
