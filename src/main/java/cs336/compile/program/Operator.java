package cs336.compile.program;

import cs336.compile.program.Argument.View;
import java.util.List;
import java.util.function.Function;
import org.bytedeco.pytorch.Tensor;

/** A function that operations of a program compute. Its text is its name in printed programs. */
public interface Operator {
    /** Returns whether equal arguments may give different results, because the operator draws random numbers. */
    default boolean isRandom() {
        return false;
    }

    /**
     * Runs an operation of this operator.
     *
     * @param read returns the tensor of an argument
     * @return the results in the order of {@link Operation#outputs}, in the caller's memory scope
     */
    List<Tensor> run(Operation operation, Function<View, Tensor> read);
}
