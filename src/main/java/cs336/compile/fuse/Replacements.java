package cs336.compile.fuse;

import cs336.compile.program.Argument.View;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;

/**
 * Changes of a program by a pass: operations that replace others, and results that become parts of larger ones. The
 * program stays as it is; {@link #applied} returns the changed one.
 */
final class Replacements {
    private final Program program;
    private final Map<ProgramValue, Operation> producers;
    private final Map<ProgramValue, List<View>> reads = new HashMap<>();
    private final Set<ProgramValue> returned;
    private final Map<Operation, List<Operation>> replacements = new HashMap<>(); // in place of an operation
    private final List<Operation> added = new ArrayList<>();
    private final Map<ProgramValue, View> parts = new HashMap<>(); // values that are now parts of another one
    private int size;

    Replacements(Program program) {
        this.program = program;
        producers = program.producers();
        returned = program.returned();
        size = program.size();
        program.reads()
                .forEach(view -> reads.computeIfAbsent(view.value(), v -> new ArrayList<>())
                        .add(view));
    }

    // ---- the program as it was

    /** Returns the operation that computes a value, or null. */
    Operation producer(ProgramValue value) {
        return producers.get(value);
    }

    boolean isReturned(ProgramValue value) {
        return returned.contains(value);
    }

    /** Returns the number of times that the program reads or returns a value. */
    int timesRead(ProgramValue value) {
        return reads(value).size() + (isReturned(value) ? 1 : 0);
    }

    private List<View> reads(ProgramValue value) {
        return reads.getOrDefault(value, List.of());
    }

    // ---- changes

    ProgramValue newValue(Layout layout) {
        return new ProgramValue(size++, layout);
    }

    ProgramValue newValue(String name, Layout layout) {
        return new ProgramValue(size++, name, layout);
    }

    boolean isReplaced(Operation operation) {
        return replacements.containsKey(operation);
    }

    /** Replaces operations by one, which computes their results as parts of its own or instead of the first one's. */
    void replace(List<Operation> operations, Operation replacement) {
        operations.forEach(operation -> replacements.put(operation, List.of()));
        replacements.put(operations.get(0), List.of(replacement));
    }

    /** Adds an operation before those that read its result. */
    void add(Operation operation) {
        added.add(operation);
    }

    /** Replaces the results of operations by parts of a result in which they are next to each other. */
    void place(List<Operation> operations, ProgramValue whole, int dim) {
        List<View> results = operations.stream()
                .map(operation -> new View(operation.output()))
                .toList();
        List<View> places = new Concatenation(dim).parts(whole, results);
        for (int i = 0; i < places.size(); i++) {
            place(results.get(i).value(), places.get(i));
        }
    }

    void place(ProgramValue value, View part) {
        parts.put(value, part);
    }

    boolean isPlaced(ProgramValue value) {
        return parts.containsKey(value);
    }

    /** Returns whether all reads of a matrix with so many columns could be reads of a matrix with more columns. */
    boolean isMovable(ProgramValue value, long columns) {
        long[] shape = {value.layout().elements() / columns, columns};
        var part = new View(value, new Layout(value.dtype(), shape, new long[] {columns + 1, 1}, 0, false));
        return reads(value).stream().allMatch(view -> Concatenation.inPart(view, part) != null);
    }

    /** Returns whether a result can be columns of a wider matrix. */
    boolean canBeColumns(ProgramValue result) {
        return !isReturned(result) && isMovable(result, result.shape()[1]);
    }

    private View moved(View view) {
        View part = parts.get(view.value());
        return part == null ? view : Concatenation.inPart(view, part);
    }

    /**
     * Returns the program with all changes, simplified; the program as it was if there are none, or if an operation
     * would need its own result.
     *
     * @param constants those of the changed program
     */
    Program applied(Map<ProgramValue, Tensor> constants) {
        if (replacements.isEmpty()) {
            return program;
        }
        List<Operation> operations = new ArrayList<>();
        for (Operation operation : program.operations()) {
            for (Operation replacement : replacements.getOrDefault(operation, List.of(operation))) {
                operations.add(replacement.withViews(this::moved));
            }
        }
        operations.addAll(added);
        List<Operation> sorted = sorted(program.withOperations(operations));
        return sorted == null
                ? program
                : Simplification.of(program.withConstants(constants)
                        .withOperations(sorted)
                        .withOutputs(this::moved)
                        .withSize(size));
    }

    /** Returns the operations in an order in which each follows its inputs, or null if there is a cycle. */
    private static List<Operation> sorted(Program program) {
        Map<ProgramValue, Operation> producers = program.producers();
        Set<Operation> sorted = new LinkedHashSet<>();
        Set<Operation> open = new HashSet<>();
        return program.operations().stream().allMatch(operation -> visit(operation, producers, open, sorted))
                ? List.copyOf(sorted)
                : null;
    }

    private static boolean visit(
            Operation operation, Map<ProgramValue, Operation> producers, Set<Operation> open, Set<Operation> sorted) {
        if (sorted.contains(operation)) {
            return true;
        }
        if (!open.add(operation)) {
            return false;
        }
        for (View view : operation.reads()) {
            Operation producer = producers.get(view.value());
            if (producer != null && !visit(producer, producers, open, sorted)) {
                return false;
            }
        }
        sorted.add(operation);
        return true;
    }
}
