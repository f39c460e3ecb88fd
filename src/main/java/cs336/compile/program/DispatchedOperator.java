package cs336.compile.program;

import java.util.BitSet;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.IValue;
import org.bytedeco.pytorch.IValueVector;
import org.bytedeco.pytorch.OperatorHandle;

/**
 * An operator of PyTorch's dispatcher.
 *
 * @param name namespace, name and overload, such as {@code aten::add.Tensor}
 * @param handle calls it; lives as long as the process
 * @param written the arguments that it writes to
 * @param isRandom whether the result depends on a random number generator
 * @param isInPlaceView whether it changes only how a tensor object refers to memory, such as {@code aten::t_}
 */
public record DispatchedOperator(
        String name, OperatorHandle handle, BitSet written, boolean isRandom, boolean isInPlaceView)
        implements Operator {
    private static final String ATEN = "aten::";

    /** An operator that returns the workspace of its backward pass in grad mode only. */
    private static final String RNN_LAYER = "aten::mkldnn_rnn_layer";

    /** Replaces the boxed arguments of a recorded operation by its boxed results, in a memory scope. */
    void call(Operation operation, IValueVector stack) {
        if (written.cardinality() > 1) {
            keepUntilScopeEnds(stack);
        }
        if (!name.equals(RNN_LAYER)) {
            handle.redispatchBoxed(operation.keys(), stack);
            return;
        }
        boolean gradMode = GradMode.is_enabled();
        boolean hasWorkspace = operation.outputs().get(operation.outputs().size() - 1) != null;
        try {
            GradMode.set_enabled(hasWorkspace);
            handle.redispatchBoxed(operation.keys(), stack); // below autograd
        } finally {
            GradMode.set_enabled(gradMode);
        }
    }

    /**
     * Keeps the tensors that the operator writes to. An operator that returns several of them returns references, and
     * PyTorch drops the arguments before it reads these references.
     */
    private void keepUntilScopeEnds(IValueVector stack) {
        written.stream().forEach(i -> new IValue(stack.get(i)));
    }

    @Override
    public String toString() {
        return name.startsWith(ATEN) ? name.substring(ATEN.length()) : name;
    }
}
