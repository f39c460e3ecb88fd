package cs336.compile.fuse;

import cs336.compile.program.Argument;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.Operator;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Tensor;

/** Passes that remove operations of a program without changing its results. */
final class Simplification {
    private Simplification() {}

    /** Applies all passes. */
    static Program of(Program program) {
        return withoutDeadOperations(withoutCommonSubexpressions(withFoldedCasts(program)));
    }

    /**
     * Lets operations read the source of a cast or copy instead of its result. Pointwise operations and reductions read
     * the source of a cast to a wider dtype, which is exact. All operations read the source of a copy in the same
     * layout.
     */
    static Program withFoldedCasts(Program program) {
        Set<ProgramValue> overwritten = overwritten(program);
        Map<ProgramValue, View> copies = new HashMap<>();
        Map<ProgramValue, View> widened = new HashMap<>();
        return rewritten(
                program,
                operation -> {
                    View from = castSource(operation, overwritten);
                    if (from != null && from.dtype() == operation.output().dtype()) {
                        copies.put(operation.output(), from);
                    } else if (from != null
                            && isExact(from.dtype(), operation.output().dtype())) {
                        widened.put(operation.output(), from);
                    }
                },
                (operation, view) -> {
                    if (operation != null && operation.operator() instanceof Concatenation) {
                        return view; // its operands are results of kernels
                    }
                    View copied = through(copies, view);
                    boolean isFusible = operation != null
                            && (operation.operator() instanceof PointwiseOperator
                                    || operation.operator() instanceof ReductionOperator);
                    // Comparisons with fp64 are not those with fp32: numbers among the arguments may differ.
                    boolean isExact = isFusible
                            && (copied.dtype() != DType.FLOAT64
                                    || operation.output().dtype() == DType.FLOAT64);
                    return isExact ? through(widened, copied) : copied;
                });
    }

    /** Computes equal operations on equal arguments once. */
    static Program withoutCommonSubexpressions(Program program) {
        record ExpressionKey(Operator operator, List<Argument> arguments, List<Layout> layouts) {}
        Set<ProgramValue> overwritten = overwritten(program);
        Map<ExpressionKey, Operation> first = new HashMap<>();
        Map<ProgramValue, View> same = new HashMap<>();
        return rewritten(
                program,
                operation -> {
                    boolean isPure = operation.overwrites().isEmpty()
                            && !operation.operator().isRandom()
                            && operation.outputs().stream().allMatch(out -> out != null && !overwritten.contains(out));
                    if (isPure) {
                        List<Layout> layouts = operation.outputs().stream()
                                .map(ProgramValue::layout)
                                .toList();
                        Operation earlier = first.putIfAbsent(
                                new ExpressionKey(operation.operator(), operation.arguments(), layouts), operation);
                        if (earlier != null) {
                            for (int i = 0; i < layouts.size(); i++) {
                                ProgramValue value = earlier.outputs().get(i);
                                same.put(operation.outputs().get(i), new View(value));
                            }
                        }
                    }
                },
                (operation, view) -> through(same, view));
    }

    /** Removes operations whose results nothing reads. */
    static Program withoutDeadOperations(Program program) {
        Set<ProgramValue> outside = program.outside();
        Set<ProgramValue> needed = program.returned();
        List<Operation> operations = new ArrayList<>();
        for (int i = program.operations().size() - 1; i >= 0; i--) {
            Operation operation = program.operations().get(i);
            boolean isNeeded =
                    operation.creates().stream().anyMatch(value -> needed.contains(value) && !outside.contains(value))
                            || operation.overwrites().stream().anyMatch(value -> outside.contains(value.root()));
            if (isNeeded) {
                operations.add(operation);
                operation.reads().forEach(view -> needed.add(view.value()));
            }
        }
        Collections.reverse(operations);
        return program.withOperations(operations);
    }

    /**
     * Lets operations read the copies of parameters in another dtype that an optimizer stores, instead of casting the
     * parameters.
     */
    static Program withStoredCasts(Program program, MasterWeights weights) {
        Set<ProgramValue> overwritten = overwritten(program);
        Map<ProgramValue, ProgramValue> casts = new LinkedHashMap<>(); // results, with the parameters that are cast
        for (Operation operation : program.operations()) {
            View from = castSource(operation, overwritten);
            if (from != null && program.constants().containsKey(from.value()) && from.isWhole()) {
                casts.put(operation.output(), from.value());
            }
        }
        List<List<ProgramValue>> sets = new ArrayList<>(GemmMerging.weightsOfCommonInputs(program));
        sets.removeIf(set -> !casts.keySet().containsAll(set));
        casts.keySet().forEach(cast -> sets.add(List.of(cast)));
        Map<ProgramValue, Tensor> constants = new LinkedHashMap<>(program.constants());
        Map<ProgramValue, View> stored = new HashMap<>();
        int size = program.size();
        for (List<ProgramValue> set : sets) {
            DType dtype = set.get(0).dtype();
            List<String> names =
                    set.stream().map(cast -> casts.get(cast).toString()).toList();
            List<Tensor> copies = set.stream().anyMatch(stored::containsKey) ? null : weights.copies(names, dtype);
            for (int i = 0; copies != null && i < copies.size(); i++) {
                Tensor copy = copies.get(i);
                var value = new ProgramValue(size++, names.get(i) + " as " + dtype, Layout.of(copy));
                constants.put(value, MemoryScope.keep(new Tensor(copy)));
                stored.put(set.get(i), new View(value));
            }
        }
        Program read = rewritten(program, operation -> {}, (operation, view) -> through(stored, view));
        return withoutDeadOperations(read.withConstants(constants).withSize(size));
    }

    /** Removes casts of outputs to a dtype of higher precision, so that these outputs keep their dtype. */
    static Program withNarrowOutputs(Program program) {
        Set<ProgramValue> overwritten = overwritten(program);
        Map<ProgramValue, Operation> producers = program.producers();
        return withoutDeadOperations(program.withOutputs(output -> {
            Operation producer = producers.get(output.value());
            View from = producer != null && output.isWhole() ? castSource(producer, overwritten) : null;
            return from != null && isExact(from.dtype(), output.dtype()) ? from : output;
        }));
    }

    /**
     * Returns the argument of a cast or copy, or null if the operation is none, changes the strides, or reads or
     * computes a value that is overwritten later.
     */
    private static View castSource(Operation operation, Set<ProgramValue> overwritten) {
        return operation.operator() == PointwiseOperator.CAST
                        && operation.arguments().get(0) instanceof View from
                        && sameStrides(from.layout(), operation.output().layout())
                        && !overwritten.contains(from.value())
                        && !overwritten.contains(operation.output())
                ? from
                : null;
    }

    /**
     * Returns the program with its views replaced, and calls the visitor after each operation.
     *
     * @param replacement a function of the reader, null for an output of the program, and of the view
     */
    private static Program rewritten(
            Program program, Consumer<Operation> visitor, BiFunction<Operation, View, View> replacement) {
        List<Operation> operations = new ArrayList<>();
        for (Operation operation : program.operations()) {
            Operation changed = operation.withViews(view -> replacement.apply(operation, view));
            operations.add(changed);
            visitor.accept(changed);
        }
        return program.withOperations(operations).withOutputs(view -> replacement.apply(null, view));
    }

    /** Returns the values that a later value replaces in their storage, and the later values. */
    static Set<ProgramValue> overwritten(Program program) {
        Set<ProgramValue> overwritten = new HashSet<>();
        for (Operation operation : program.operations()) {
            for (ProgramValue value : operation.overwrites()) {
                ProgramValue v = value;
                while (v != null && overwritten.add(v)) { // the values before one of the set are in it, too
                    v = v.overwritten();
                }
            }
        }
        return overwritten;
    }

    /** Returns the view of the source instead of a view of its copy. */
    private static View through(Map<ProgramValue, View> copies, View view) {
        View from = copies.get(view.value());
        if (from == null) {
            return view;
        }
        Layout want = view.layout();
        Layout have = from.layout();
        long offset = have.offset() + want.offset() - view.value().layout().offset();
        DType dtype = view.value().dtype() == want.dtype() ? have.dtype() : want.dtype();
        var layout = new Layout(dtype, want.shape(), want.strides(), offset, want.conjugated());
        return through(copies, new View(from.value(), layout));
    }

    static boolean sameStrides(Layout a, Layout b) {
        return Arrays.equals(a.shape(), b.shape())
                && IntStream.range(0, a.shape().length)
                        .allMatch(i -> a.shape()[i] == 1 || a.strides()[i] == b.strides()[i]);
    }

    private static boolean isExact(DType from, DType to) {
        return from.isFloatingPoint() && to.isFloatingPoint() && from.bytes() < to.bytes();
    }
}
