package cs336.compile.trace;

import cs336.compile.program.Argument;
import cs336.compile.program.Operation;
import cs336.compile.program.ProgramValue;
import java.util.BitSet;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.IntStream;

/**
 * The values of a recording that depend on elements of a new tensor that no recorded operation has written. Some
 * functions of PyTorch write the elements of an empty tensor through pointers, which a replay would not repeat.
 */
final class UnwrittenValues {
    /** The reason why a function is refused, after the name of the value. */
    static final String DEPENDS = " depends on elements that are written without PyTorch's dispatcher, as"
            + " torch.tensor does, and max_pool1d on the CPU; torch.full and max_pool2d do not";

    /** Operators that do not write the elements of their result. */
    private static final Pattern EMPTY = Pattern.compile("(new_)?empty(_strided|_like)?(\\..*)?");
    /** Operators that read only the shape and dtype of their tensors. */
    private static final Pattern TEMPLATE_READERS = Pattern.compile("new_.*|.*_like(\\..*)?");

    private static final Pattern IN_PLACE = Pattern.compile("[^.:]*_(\\..*)?");
    /** Operators in place that need not read the elements of the tensor that they write to. */
    private static final Pattern SETTERS = Pattern.compile("(_foreach_)?(copy|fill|zero|resize|resize_as"
            + "|random|uniform|normal|bernoulli|exponential|geometric|cauchy|log_normal|index_copy|index_fill|index_put"
            + "|_index_put_impl|put|scatter|masked_fill|masked_scatter|fill_diagonal)_(\\..*)?");

    private final Set<ProgramValue> values = new HashSet<>();

    /** Returns whether this is such a value. */
    boolean contains(ProgramValue value) {
        return values.contains(value);
    }

    /**
     * Adds the values that an operation creates, if they depend on elements that are not written.
     *
     * @param written the arguments that it writes to
     * @return whether it has added them
     */
    boolean add(Operation operation, BitSet written) {
        boolean isUnwritten = isUnwritten(operation, written);
        if (isUnwritten) {
            values.addAll(operation.creates());
        }
        return isUnwritten;
    }

    private boolean isUnwritten(Operation operation, BitSet written) {
        String name = operation.operator().toString();
        if (EMPTY.matcher(name).matches()) {
            return operation.creates().stream().anyMatch(value -> value.layout().elements() > 0);
        }
        List<Argument> arguments = operation.arguments();
        boolean readsTarget =
                IN_PLACE.matcher(name).matches() && !SETTERS.matcher(name).matches();
        return !TEMPLATE_READERS.matcher(name).matches()
                && IntStream.range(0, arguments.size())
                        .filter(i -> readsTarget || !written.get(i))
                        .mapToObj(arguments::get)
                        .flatMap(argument -> argument.tensors().stream())
                        .anyMatch(view -> contains(view.value()));
    }
}
