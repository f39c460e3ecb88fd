package cs336.compile.fuse;

import cs336.compile.program.Argument;
import cs336.compile.program.Argument.View;
import cs336.compile.program.DispatchedOperator;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.kernels.gemm.Epilogue;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.JavaOperator;
import cs336.torch.MemoryScope;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.bytedeco.pytorch.Tensor;

/**
 * The pass that runs matrix multiplications with a common operand as one, such as those of queries, keys and values:
 *
 * <pre>
 * X · Wᵢᵀ for all i        becomes   X · [W₁; W₂; …]ᵀ, whose columns are the results
 * Gᵢᵀ · X for all i        becomes   [G₁ G₂ …]ᵀ · X, whose rows are the results
 * G₁ · W₁ + G₂ · W₂ + …    becomes   [G₁ G₂ …] · [W₁; W₂; …], with one rounding
 * </pre>
 *
 * <p>The pass merges if making the operands adjacent in memory moves fewer bytes than merging saves. It concatenates
 *
 * <ul>
 *   <li>constants that are adjacent already, such as the 16-bit weights of an optimizer, without a copy;
 *   <li>results of pointwise operations that only matrix multiplications read: the generated kernel stores them next to
 *       each other;
 *   <li>with a copy, gradients Gᵢ that no pointwise operation computes, if they are fewer than half of the operands.
 * </ul>
 *
 * <p>Parameters in fp32 have separate storages, so only the matrix multiplications that compute their gradients are
 * merged in this way. Before that, kernels of {@link LinearGemms} replace X · Wᵢᵀ with fp32 weights where that is
 * faster: all of {@link EpilogueOperations}, several weights together, or one. The weights may be cast, if nothing else
 * reads the cast.
 */
final class GemmMerging {
    private static final int ROWS = 0;
    private static final int COLUMNS = 1;
    private static final int LEFT = 0;
    private static final int RIGHT = 1;

    /** Adjacent matrices, in this order. */
    private record AdjacentMatrices(View whole, List<View> parts) {}

    private record ConcatenationKey(Set<View> parts, int dim) {}

    private final Program program;
    private final LinearGemms linear;
    private final Map<ProgramValue, Operation> producers;
    private final Map<ProgramValue, List<View>> reads = new HashMap<>();
    private final Set<ProgramValue> readOtherwise = new HashSet<>();
    private final Set<ProgramValue> returned;
    private final Map<ProgramValue, Tensor> constants;
    private final Map<ConcatenationKey, AdjacentMatrices> adjacent = new HashMap<>();
    private final Map<ProgramValue, View> parts = new HashMap<>(); // values that are now parts of another one
    private final Map<Operation, List<Operation>> replacements = new HashMap<>(); // in place of an operation
    private final List<Operation> concatenations = new ArrayList<>();
    private int size;

    private GemmMerging(Program program, LinearGemms linear) {
        this.program = program;
        this.linear = linear;
        constants = new LinkedHashMap<>(program.constants());
        size = program.size();
        returned = program.returned();
        producers = program.producers();
        for (Operation operation : program.operations()) {
            boolean isGemm = isGemm(operation);
            for (View view : operation.reads()) {
                reads.computeIfAbsent(view.value(), v -> new ArrayList<>()).add(view);
                if (!isGemm) {
                    readOtherwise.add(view.value());
                }
            }
        }
    }

    /** Returns the program with fewer or faster matrix multiplications. */
    static Program of(Program program, Device device) {
        return of(program, LinearGemms.on(device));
    }

    static Program of(Program program, LinearGemms linear) {
        boolean isPure = program.operations().stream()
                .allMatch(operation -> operation.overwrites().isEmpty());
        return isPure ? new GemmMerging(program, linear).run() : program;
    }

    /**
     * Returns the operands Wᵢ of each set of matrix multiplications X · Wᵢᵀ, which an optimizer should make adjacent.
     */
    static List<List<ProgramValue>> weightsOfCommonInputs(Program program) {
        return withCommon(program, LEFT, RIGHT).stream()
                .map(gemms -> gemms.stream()
                        .map(gemm -> gemm.view(RIGHT).value())
                        .distinct()
                        .toList())
                .filter(values -> values.size() > 1)
                .toList();
    }

    private Program run() {
        program.operations().forEach(this::replaceEpilogue);
        List<List<Operation>> layers = withCommon(program, LEFT, RIGHT);
        layers.forEach(this::replaceByLinear);
        layers.forEach(gemms -> merge(gemms, LEFT));
        mergeSums();
        withCommon(program, RIGHT, LEFT).forEach(gemms -> merge(gemms, RIGHT));
        if (replacements.isEmpty()) {
            return program;
        }
        List<Operation> operations = new ArrayList<>();
        for (Operation operation : program.operations()) {
            for (Operation replacement : replacements.getOrDefault(operation, List.of(operation))) {
                operations.add(replacement.withViews(this::moved));
            }
        }
        operations.addAll(concatenations); // sorting moves them to the operations that read them
        List<Operation> sorted = sorted(program.withOperations(operations));
        if (sorted == null) {
            constants.keySet().removeAll(program.constants().keySet());
            constants.values().forEach(Tensor::close);
            return program;
        }
        return Simplification.of(program.withConstants(constants)
                .withOperations(sorted)
                .withOutputs(this::moved)
                .withSize(size));
    }

    private View moved(View view) {
        View part = parts.get(view.value());
        return part == null ? view : Concatenation.inPart(view, part);
    }

    // ---- sets of matrix multiplications

    /** Returns whether an operation is a matrix multiplication. */
    static boolean isGemm(Operation operation) {
        return operation.operator() instanceof DispatchedOperator operator
                && operator.name().equals("aten::mm");
    }

    /** Returns the matrix multiplications by their common operand; the other one is a transposed row-major matrix. */
    private static List<List<Operation>> withCommon(Program program, int common, int other) {
        Map<View, List<Operation>> sets = new LinkedHashMap<>();
        for (Operation operation : program.operations()) {
            if (isGemm(operation) && isMatrix(operation.view(other).transposed())) {
                sets.computeIfAbsent(operation.view(common), view -> new ArrayList<>())
                        .add(operation);
            }
        }
        return List.copyOf(sets.values());
    }

    /** Returns whether a view is all of a value, as a row-major matrix. */
    private static boolean isMatrix(View view) {
        return view.readsAll() && view.layout().elements() > 0;
    }

    // ---- merging

    /**
     * Replaces matrix multiplications with an epilogue that ends with this operation by one kernel where that is
     * faster.
     */
    private void replaceEpilogue(Operation last) {
        EpilogueOperations epilogue = EpilogueOperations.endingWith(last, producers::get, this::timesRead);
        if (epilogue == null || !last.output().layout().isContiguous()) {
            return;
        }
        List<Operation> gemms = epilogue.gemms();
        View x = gemms.get(0).view(LEFT);
        List<View> weights = gemms.stream().map(this::fp32Weight).toList();
        List<ProgramValue> results = gemms.stream().map(Operation::output).toList();
        JavaOperator operator =
                weights.contains(null) ? null : linear.fastest(epilogue.function(), x, weights, results);
        if (operator != null) {
            ProgramValue result = newValue(results.get(0).layout());
            List<Operation> replaced = new ArrayList<>(List.of(last));
            replaced.addAll(gemms);
            replaced.addAll(epilogue.inner());
            replace(replaced, LinearGemms.operation(operator, x, weights, result));
            place(List.of(last), result, ROWS);
        }
    }

    /** Returns the number of times that the program reads or returns a value. */
    private int timesRead(ProgramValue value) {
        return reads.getOrDefault(value, List.of()).size() + (returned.contains(value) ? 1 : 0);
    }

    /**
     * Replaces X · Wᵢᵀ, for all i together or for each separately, by a kernel that reads fp32 weights, where that is
     * faster.
     */
    private void replaceByLinear(List<Operation> layers) {
        View x = layers.get(0).view(LEFT);
        List<Operation> gemms = new ArrayList<>();
        List<View> weights = new ArrayList<>();
        for (Operation gemm : layers) {
            View weight = replacements.containsKey(gemm) ? null : fp32Weight(gemm);
            if (weight != null) {
                gemms.add(gemm);
                weights.add(weight);
            }
        }
        List<ProgramValue> results = gemms.stream().map(Operation::output).toList();
        if (gemms.size() > 1
                && gemms.size() == layers.size()
                && results.stream().allMatch(result -> isPlaceable(result, true))) {
            JavaOperator operator = linear.fastest(Epilogue.NONE, x, weights, results);
            if (operator != null) {
                long columns =
                        results.stream().mapToLong(result -> result.shape()[1]).sum();
                ProgramValue merged = newValue(Layout.contiguous(results.get(0).dtype(), x.shape()[0], columns));
                replace(gemms, LinearGemms.operation(operator, x, weights, merged));
                place(gemms, merged, COLUMNS);
                return;
            }
        }
        for (int i = 0; i < gemms.size(); i++) {
            List<View> weight = weights.subList(i, i + 1);
            JavaOperator operator = linear.fastest(Epilogue.NONE, x, weight, results.subList(i, i + 1));
            if (operator != null) {
                replace(gemms.subList(i, i + 1), LinearGemms.operation(operator, x, weight, results.get(i)));
            }
        }
    }

    /**
     * Returns the weight W of X · Wᵀ in fp32: the right operand, or the input or constant of which only this operation
     * reads a cast. Returns null if there is none.
     */
    private View fp32Weight(Operation gemm) {
        View right = gemm.view(RIGHT).transposed();
        if (right.dtype() == DType.FLOAT32) {
            return right;
        }
        Operation producer = producers.get(right.value());
        boolean isCast = producer != null
                && producer.operator() == PointwiseOperator.CAST
                && producer.view(0).readsAll()
                && Arrays.equals(producer.view(0).shape(), right.shape())
                && !producers.containsKey(producer.view(0).value());
        boolean isOnlyReader = reads.get(right.value()).size() == 1 && !returned.contains(right.value());
        return isCast && isOnlyReader ? producer.view(0) : null;
    }

    /** Merges X · Wᵢᵀ for all i, with the common operand on the left, or Gᵢᵀ · X, with it on the right. */
    private void merge(List<Operation> gemms, int common) {
        if (gemms.size() < 2) {
            return;
        }
        boolean isLeft = common == LEFT;
        List<View> others =
                gemms.stream().map(gemm -> gemm.view(1 - common).transposed()).toList();
        boolean areMergeable =
                gemms.stream().allMatch(gemm -> !replacements.containsKey(gemm) && isPlaceable(gemm.output(), isLeft));
        AdjacentMatrices all = areMergeable ? adjacent(others, isLeft ? ROWS : COLUMNS) : null;
        if (all == null) {
            return;
        }
        View x = gemms.get(0).view(common);
        View whole = all.whole.transposed();
        ProgramValue merged = isLeft ? replace(gemms, x, whole) : replace(gemms, whole, x);
        place(inOrder(gemms, others, all.parts), merged, isLeft ? COLUMNS : ROWS);
    }

    /** Replaces the results of operations by views of a merged result. */
    private void place(List<Operation> gemms, ProgramValue merged, int dim) {
        List<View> results = gemms.stream().map(gemm -> new View(gemm.output())).toList();
        List<View> places = new Concatenation(dim).parts(merged, results);
        for (int i = 0; i < places.size(); i++) {
            parts.put(results.get(i).value(), places.get(i));
        }
    }

    /** Returns whether a result can be columns of a wider matrix, or another result can follow it in memory. */
    private boolean isPlaceable(ProgramValue result, boolean asColumns) {
        return asColumns
                ? !returned.contains(result) && isMovable(result, result.shape()[1])
                : result.layout().bytes() % KernelEmitter.ACCESS_BYTES == 0;
    }

    private void mergeSums() {
        Set<Operation> inner = new HashSet<>();
        for (int i = program.operations().size() - 1; i >= 0; i--) {
            Operation root = program.operations().get(i);
            List<Operation> gemms = new ArrayList<>();
            List<Operation> sums = new ArrayList<>();
            if (isSum(root) && !inner.contains(root) && findTerms(root, gemms, sums) && gemms.size() > 1) {
                inner.addAll(sums);
                mergeSum(root, gemms);
            }
        }
    }

    /** Merges G₁ · W₁ + G₂ · W₂ + …. */
    private void mergeSum(Operation root, List<Operation> gemms) {
        List<View> weights = gemms.stream().map(gemm -> gemm.view(RIGHT)).toList();
        List<View> gradients = gemms.stream().map(gemm -> gemm.view(LEFT)).toList();
        boolean areMatrices = gemms.stream().noneMatch(replacements::containsKey)
                && weights.stream().allMatch(GemmMerging::isMatrix)
                && gradients.stream().allMatch(GemmMerging::isMatrix)
                && gradients.stream().distinct().count() == gradients.size(); // else the weights stay as they are
        AdjacentMatrices allWeights = areMatrices ? adjacent(weights, ROWS) : null;
        if (allWeights == null) {
            return;
        }
        AdjacentMatrices all = adjacent(inOrder(gradients, weights, allWeights.parts), COLUMNS);
        if (all == null) {
            return;
        }
        ProgramValue merged = replace(gemms, all.whole, allWeights.whole);
        Layout sum = root.output().layout();
        var asSum = new View(merged, new Layout(merged.dtype(), sum.shape(), sum.strides(), 0, false));
        replacements.put(root, List.of(PointwiseOperator.cast(asSum, root.output())));
    }

    private static boolean isSum(Operation operation) {
        return operation.operator() == PointwiseOperator.ADD
                && operation.arguments().stream().allMatch(View.class::isInstance)
                && operation.output().layout().isContiguous();
    }

    /** Collects the matrix multiplications and sums below a sum, or returns false if it has other terms. */
    private boolean findTerms(Operation sum, List<Operation> gemms, List<Operation> sums) {
        for (View term : sum.reads()) {
            ProgramValue value = term.value();
            Operation producer = producers.get(value);
            boolean isOnlyTerm = producer != null
                    && !returned.contains(value)
                    && reads.get(value).size() == 1;
            if (!isOnlyTerm || !term.readsAll()) {
                return false;
            }
            if (isGemm(producer)) {
                gemms.add(producer);
            } else if (isSum(producer) && findTerms(producer, gemms, sums)) {
                sums.add(producer);
            } else {
                return false;
            }
        }
        return true;
    }

    /** Replaces several matrix multiplications by one. */
    private ProgramValue replace(List<Operation> gemms, View left, View right) {
        Operation first = gemms.get(0);
        long[] shape = {left.shape()[0], right.shape()[1]};
        ProgramValue merged = newValue(Layout.contiguous(first.output().dtype(), shape));
        replace(gemms, new Operation(first.operator(), List.of(left, right), List.of(merged), List.of(), first.keys()));
        return merged;
    }

    private void replace(List<Operation> gemms, Operation replacement) {
        gemms.forEach(gemm -> replacements.put(gemm, List.of()));
        replacements.put(gemms.get(0), List.of(replacement));
    }

    /** Returns a list permuted as {@code ordered} permutes the keys. */
    private static <T> List<T> inOrder(List<T> list, List<View> keys, List<View> ordered) {
        return ordered.stream().map(key -> list.get(keys.indexOf(key))).toList();
    }

    // ---- adjacent operands

    /** Returns these row-major matrices as one, or null if that would move more bytes than it saves. */
    private AdjacentMatrices adjacent(List<View> matrices, int dim) {
        Set<View> set = new LinkedHashSet<>(matrices);
        if (set.size() < matrices.size()) {
            return null;
        }
        var key = new ConcatenationKey(set, dim);
        if (!adjacent.containsKey(key)) {
            boolean areConstant = set.stream().allMatch(view -> constants.containsKey(view.value()));
            adjacent.put(key, dim == ROWS && areConstant ? adjacentConstants(set) : concatenated(set, dim));
        }
        return adjacent.get(key);
    }

    private AdjacentMatrices adjacentConstants(Set<View> matrices) {
        List<View> ordered = matrices.stream()
                .sorted(Comparator.comparing(view -> address(view.value())))
                .toList();
        View first = ordered.get(0);
        long end = address(first.value());
        for (View view : ordered) {
            if (address(view.value()) != end
                    || storage(view.value()) != storage(first.value())
                    || view.dtype() != first.dtype()) {
                return null;
            }
            end += view.layout().bytes();
        }
        Layout layout = new Concatenation(ROWS).concatenated(ordered);
        String name = ordered.stream().map(View::value).map(Object::toString).collect(Collectors.joining(" & "));
        var whole = new ProgramValue(size++, name, layout);
        Tensor tensor = constants.get(first.value());
        Tensor all = layout.withOffset(tensor.storage_offset()).view(tensor);
        constants.put(whole, MemoryScope.keep(all));
        return new AdjacentMatrices(new View(whole, layout), ordered);
    }

    private long address(ProgramValue constant) {
        return constants.get(constant).data_ptr().address();
    }

    /** Returns the address of a constant's storage: the allocator may place two storages next to each other. */
    private long storage(ProgramValue constant) {
        return constants.get(constant).storage().data().address();
    }

    /** Concatenates matrices, which moves no bytes if one kernel computes all of them. */
    private AdjacentMatrices concatenated(Set<View> matrices, int dim) {
        List<View> ordered = List.copyOf(matrices);
        List<View> copied = ordered.stream()
                .filter(view -> producers.get(view.value()) == null
                        || !(producers.get(view.value()).operator() instanceof PointwiseOperator))
                .toList();
        boolean areEqual = ordered.stream()
                .allMatch(view -> view.layout().equals(ordered.get(0).layout())
                        && !returned.contains(view.value())
                        && !readOtherwise.contains(view.value())
                        && !parts.containsKey(view.value())
                        && (dim == ROWS || isMovable(view.value(), view.shape()[1])));
        if (!areEqual || 2 * copied.size() >= ordered.size() || copied.size() > 0 && dim == ROWS) {
            return null;
        }
        var operator = new Concatenation(dim);
        ProgramValue whole = newValue(operator.concatenated(ordered));
        List<View> places = operator.parts(whole, ordered);
        List<Argument> sources = new ArrayList<>();
        for (int i = 0; i < ordered.size(); i++) {
            View view = ordered.get(i);
            if (copied.contains(view)) {
                ProgramValue copy = newValue(Layout.contiguous(view.dtype(), view.shape()));
                concatenations.add(PointwiseOperator.cast(view, copy));
                sources.add(new View(copy));
            } else {
                parts.put(view.value(), places.get(i));
                sources.add(view);
            }
        }
        concatenations.add(Operation.of(operator, sources, whole));
        return new AdjacentMatrices(new View(whole), ordered);
    }

    /** Returns whether all reads of a matrix with so many columns could be reads of a matrix with more columns. */
    private boolean isMovable(ProgramValue value, long columns) {
        long[] shape = {value.layout().elements() / columns, columns};
        var part = new View(value, new Layout(value.dtype(), shape, new long[] {columns + 1, 1}, 0, false));
        return reads.getOrDefault(value, List.of()).stream().allMatch(view -> Concatenation.inPart(view, part) != null);
    }

    private ProgramValue newValue(Layout layout) {
        return new ProgramValue(size++, layout);
    }

    // ---- order

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
