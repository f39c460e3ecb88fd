package cs336.compile.program;

import cs336.torch.JavaOperator;
import java.util.BitSet;
import org.bytedeco.pytorch.OperatorHandle;

/** What an operation computes. */
public sealed interface Operator {
    /** Returns the name in printed programs. */
    String name();

    /** Returns whether the operation writes to the storage of its argument i. */
    boolean writes(int i);

    /**
     * An operator of PyTorch's dispatcher.
     *
     * @param name namespace, name and overload, such as {@code aten::add.Tensor}
     * @param handle calls it; lives as long as the process
     * @param written the arguments that it writes to
     * @param random whether the result depends on a random number generator
     */
    record Dispatched(String name, OperatorHandle handle, BitSet written, boolean random) implements Operator {
        @Override
        public boolean writes(int i) {
            return written.get(i);
        }

        @Override
        public String toString() {
            return name.replaceFirst("^aten::", "");
        }
    }

    /** An operator in Java, which writes to no argument. */
    record InJava(JavaOperator function) implements Operator {
        @Override
        public String name() {
            return function.name();
        }

        @Override
        public boolean writes(int i) {
            return false;
        }

        @Override
        public String toString() {
            return name();
        }
    }
}
