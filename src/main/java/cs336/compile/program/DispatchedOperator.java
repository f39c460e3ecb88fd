package cs336.compile.program;

import java.util.BitSet;
import org.bytedeco.pytorch.IValueVector;
import org.bytedeco.pytorch.OperatorHandle;

/**
 * An operator of PyTorch's dispatcher.
 *
 * @param name namespace, name and overload, such as {@code aten::add.Tensor}
 * @param handle calls it; lives as long as the process
 * @param written the arguments that it writes to
 * @param isRandom whether the result depends on a random number generator
 */
public record DispatchedOperator(String name, OperatorHandle handle, BitSet written, boolean isRandom)
        implements Operator {
    private static final String ATEN = "aten::";

    /** Replaces the boxed arguments of a recorded operation by its boxed results. */
    void call(Operation operation, IValueVector stack) {
        handle.redispatchBoxed(operation.keys(), stack);
    }

    @Override
    public String toString() {
        return name.startsWith(ATEN) ? name.substring(ATEN.length()) : name;
    }
}
