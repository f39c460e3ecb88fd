package cs336.compile.program;

import cs336.compile.program.Argument.View;
import cs336.compile.program.Argument.Views;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import org.bytedeco.pytorch.DispatchKeySet;

/**
 * One call of an operator in a program.
 *
 * @param operator the operator that is called
 * @param arguments all arguments of the operator's schema, in order
 * @param outputs the new storages among the results, with lists flattened; null for a result that is a view of an
 *     argument or is undefined
 * @param overwrites the values that the operation leaves in the storages of the arguments that it writes to
 * @param keys the dispatch keys below autograd of the recorded call; null if the operation was not recorded
 */
public record Operation(
        Operator operator,
        List<Argument> arguments,
        List<ProgramValue> outputs,
        List<ProgramValue> overwrites,
        DispatchKeySet keys) {

    /** Creates an operation that writes nothing in place. */
    public static Operation of(Operator operator, List<? extends Argument> arguments, ProgramValue... outputs) {
        return new Operation(operator, List.copyOf(arguments), List.of(outputs), List.of(), null);
    }

    /** Returns the first output. */
    public ProgramValue output() {
        return outputs.get(0);
    }

    /** Returns argument i, which is a tensor. */
    public View view(int i) {
        return (View) arguments.get(i);
    }

    /** Returns the tensors that the operation reads, or writes in place. */
    public List<View> reads() {
        List<View> reads = new ArrayList<>();
        for (Argument argument : arguments) {
            reads.addAll(argument.tensors());
        }
        return reads;
    }

    /** Returns the values that exist only after this operation. */
    public List<ProgramValue> creates() {
        List<ProgramValue> created = new ArrayList<>(overwrites);
        for (ProgramValue output : outputs) {
            if (output != null) {
                created.add(output);
            }
        }
        return created;
    }

    /** Returns the bytes that the operation reads and writes if it accesses each element once. */
    public long bytesMoved() {
        long read = reads().stream()
                .distinct()
                .mapToLong(view -> view.layout().distinctBytes())
                .sum();
        return read
                + creates().stream().mapToLong(value -> value.layout().bytes()).sum();
    }

    /** Returns this operation with each of its views replaced by the function's result for the view. */
    public Operation withViews(UnaryOperator<View> change) {
        List<Argument> changed = new ArrayList<>();
        boolean isChanged = false;
        for (Argument argument : arguments) {
            Argument other = argument;
            if (argument instanceof View view) {
                other = change.apply(view);
            } else if (argument instanceof Views list) {
                other = new Views(list.views().stream().map(change).toList());
            }
            changed.add(other);
            isChanged |= other != argument;
        }
        return !isChanged
                ? this
                : new Operation(operator, Collections.unmodifiableList(changed), outputs, overwrites, keys);
    }

    /** Returns this operation with other values in the storages that it writes to. */
    public Operation withOverwrites(List<ProgramValue> others) {
        return new Operation(operator, arguments, outputs, others, keys);
    }

    /** Returns whether this is the same object: no two operations of a program create the same values. */
    @Override
    public boolean equals(Object other) {
        return this == other;
    }

    @Override
    public int hashCode() {
        return System.identityHashCode(this);
    }

    @Override
    public String toString() {
        String results =
                creates().stream().map(value -> value + ": " + value.layout()).collect(Collectors.joining(", "));
        String text = arguments.stream().map(Argument::toString).collect(Collectors.joining(", ", "(", ")"));
        return (results.isEmpty() ? "" : results + " = ") + operator + text;
    }
}
