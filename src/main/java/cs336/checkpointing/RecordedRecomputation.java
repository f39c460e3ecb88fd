package cs336.checkpointing;

import cs336.torch.JavaOperator;
import cs336.torch.OperatorInterceptor;
import java.util.concurrent.atomic.AtomicLong;
import org.bytedeco.pytorch.Tensor;

/**
 * The start of a recomputation in a recorded program: copies of the inputs of a checkpointed function. Without them the
 * recomputation would consist of the same operators on the same tensors as the forward pass, and a compiler that
 * computes equal expressions once would keep the activations after all. The number makes each recomputation a different
 * operator.
 *
 * @param number a unique number
 */
record RecordedRecomputation(long number) implements JavaOperator {
    private static final AtomicLong NEXT = new AtomicLong();

    /**
     * Returns the tensors from which a recomputation starts: the inputs or, while operators of this thread are
     * recorded, copies of those that require a gradient, as leaves of the graph.
     */
    static Tensor[] inputs(Tensor... saved) {
        Tensor[] inputs = saved.clone();
        if (OperatorInterceptor.isActive()) {
            for (int i = 0; i < inputs.length; i++) {
                if (inputs[i].requires_grad()) {
                    inputs[i] = new RecordedRecomputation(NEXT.incrementAndGet()).call(inputs[i].detach())[0];
                    inputs[i].set_requires_grad(true);
                }
            }
        }
        return inputs;
    }

    @Override
    public String name() {
        return "recompute_from";
    }

    @Override
    public Tensor[] compute(Tensor... inputs) {
        return new Tensor[] {inputs[0].clone()};
    }
}
