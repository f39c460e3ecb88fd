package cs336.checkpointing;

import cs336.torch.AutogradFunction;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Tensor;

/** The place where checkpointed functions keep their inputs between the forward and the backward pass. */
public abstract class ActivationStore {
    private static final ActivationStore GRAPH = new Graph();

    ActivationStore() {}

    /** Returns the store that leaves the inputs where they are and lets the autograd graph hold them. */
    public static ActivationStore graph() {
        return GRAPH;
    }

    /** Keeps the inputs of one application of a function until its backward pass. */
    abstract void save(AutogradFunction.Context ctx, Tensor... inputs);

    /** Returns the inputs in the backward pass. */
    abstract Tensor[] saved(AutogradFunction.Context ctx, int inputs);

    /** Returns the first saved tensors of a node. */
    static Tensor[] savedTensors(AutogradFunction.Context ctx, int count) {
        return IntStream.range(0, count).mapToObj(ctx::saved).toArray(Tensor[]::new);
    }

    private static final class Graph extends ActivationStore {
        @Override
        void save(AutogradFunction.Context ctx, Tensor... inputs) {
            ctx.save(inputs);
        }

        @Override
        Tensor[] saved(AutogradFunction.Context ctx, int inputs) {
            return savedTensors(ctx, inputs);
        }
    }
}
