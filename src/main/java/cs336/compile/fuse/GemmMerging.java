package cs336.compile.fuse;

import cs336.compile.program.Argument;
import cs336.compile.program.Argument.View;
import cs336.compile.program.DispatchedOperator;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.torch.MemoryScope;
import java.util.ArrayList;
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
 * merged in this way; {@link LinearGemms} merges others.
 */
final class GemmMerging {
    static final int ROWS = 0;
    static final int COLUMNS = 1;
    static final int LEFT = 0;
    static final int RIGHT = 1;

    /** Adjacent matrices, in this order. */
    private record AdjacentMatrices(View whole, List<View> parts) {}

    private record ConcatenationKey(Set<View> parts, int dim) {}

    private final Program program;
    private final Replacements replacements;
    private final Set<ProgramValue> readOtherwise; // than by matrix multiplications
    private final Map<ProgramValue, Tensor> constants;
    private final Map<ConcatenationKey, AdjacentMatrices> adjacent = new HashMap<>();

    private GemmMerging(Program program) {
        this.program = program;
        replacements = new Replacements(program);
        constants = new LinkedHashMap<>(program.constants());
        readOtherwise = program.operations().stream()
                .filter(operation -> !isGemm(operation))
                .flatMap(operation -> operation.reads().stream())
                .map(View::value)
                .collect(Collectors.toSet());
    }

    /** Returns the program with fewer matrix multiplications. */
    static Program of(Program program) {
        return program.isPure() ? new GemmMerging(program).run() : program;
    }

    /**
     * Returns the operands Wᵢ of each set of matrix multiplications X · Wᵢᵀ, which an optimizer should make adjacent.
     */
    static List<List<ProgramValue>> weightsOfCommonInputs(Program program) {
        return withCommonInput(program).stream()
                .map(gemms -> gemms.stream()
                        .map(gemm -> gemm.view(RIGHT).value())
                        .distinct()
                        .toList())
                .filter(values -> values.size() > 1)
                .toList();
    }

    private Program run() {
        withCommonInput(program).forEach(gemms -> merge(gemms, LEFT));
        mergeSums();
        withCommon(program, RIGHT, LEFT).forEach(gemms -> merge(gemms, RIGHT));
        Program merged = replacements.applied(constants);
        if (merged == program) {
            constants.keySet().removeAll(program.constants().keySet());
            constants.values().forEach(Tensor::close);
        }
        return merged;
    }

    // ---- sets of matrix multiplications

    /** Returns whether an operation is a matrix multiplication. */
    static boolean isGemm(Operation operation) {
        return operation.operator() instanceof DispatchedOperator operator
                && operator.name().equals("aten::mm");
    }

    /** Returns the matrix multiplications X · Wᵢᵀ by their X. Each Wᵢ is a row-major matrix. */
    static List<List<Operation>> withCommonInput(Program program) {
        return withCommon(program, LEFT, RIGHT);
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

    /** Merges X · Wᵢᵀ for all i, with the common operand on the left, or Gᵢᵀ · X, with it on the right. */
    private void merge(List<Operation> gemms, int common) {
        if (gemms.size() < 2) {
            return;
        }
        boolean isLeft = common == LEFT;
        List<View> others =
                gemms.stream().map(gemm -> gemm.view(1 - common).transposed()).toList();
        boolean areMergeable =
                gemms.stream().allMatch(gemm -> !replacements.isReplaced(gemm) && isPlaceable(gemm.output(), isLeft));
        AdjacentMatrices all = areMergeable ? adjacent(others, isLeft ? ROWS : COLUMNS) : null;
        if (all == null) {
            return;
        }
        View x = gemms.get(0).view(common);
        View whole = all.whole.transposed();
        ProgramValue merged = isLeft ? replace(gemms, x, whole) : replace(gemms, whole, x);
        replacements.place(inOrder(gemms, others, all.parts), merged, isLeft ? COLUMNS : ROWS);
    }

    /** Returns whether a result can be columns of a wider matrix, or another result can follow it in memory. */
    private boolean isPlaceable(ProgramValue result, boolean asColumns) {
        return asColumns
                ? replacements.canBeColumns(result)
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
        boolean areMatrices = gemms.stream().noneMatch(replacements::isReplaced)
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
        replacements.replace(List.of(root), PointwiseOperator.cast(asSum, root.output()));
    }

    private static boolean isSum(Operation operation) {
        return operation.operator() == PointwiseOperator.ADD
                && operation.arguments().stream().allMatch(View.class::isInstance)
                && operation.output().layout().isContiguous();
    }

    /** Collects the matrix multiplications and sums below a sum, or returns false if it has other terms. */
    private boolean findTerms(Operation sum, List<Operation> gemms, List<Operation> sums) {
        for (View term : sum.reads()) {
            Operation producer = replacements.producer(term.value());
            if (producer == null || replacements.timesRead(term.value()) > 1 || !term.readsAll()) {
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
        ProgramValue merged =
                replacements.newValue(Layout.contiguous(first.output().dtype(), shape));
        replacements.replace(
                gemms, new Operation(first.operator(), List.of(left, right), List.of(merged), List.of(), first.keys()));
        return merged;
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
        ProgramValue whole = replacements.newValue(name, layout);
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

    private static boolean isPointwise(Operation producer) {
        return producer != null && producer.operator() instanceof PointwiseOperator;
    }

    /** Concatenates matrices, which moves no bytes if one kernel computes all of them. */
    private AdjacentMatrices concatenated(Set<View> matrices, int dim) {
        List<View> ordered = List.copyOf(matrices);
        List<View> copied = ordered.stream()
                .filter(view -> !isPointwise(replacements.producer(view.value())))
                .toList();
        boolean areEqual = ordered.stream()
                .allMatch(view -> view.layout().equals(ordered.get(0).layout())
                        && !replacements.isReturned(view.value())
                        && !readOtherwise.contains(view.value())
                        && !replacements.isPlaced(view.value())
                        && (dim == ROWS || replacements.isMovable(view.value(), view.shape()[1])));
        if (!areEqual || 2 * copied.size() >= ordered.size() || copied.size() > 0 && dim == ROWS) {
            return null;
        }
        var operator = new Concatenation(dim);
        ProgramValue whole = replacements.newValue(operator.concatenated(ordered));
        List<View> places = operator.parts(whole, ordered);
        List<Argument> sources = new ArrayList<>();
        for (int i = 0; i < ordered.size(); i++) {
            View view = ordered.get(i);
            if (copied.contains(view)) {
                ProgramValue copy = replacements.newValue(Layout.contiguous(view.dtype(), view.shape()));
                replacements.add(PointwiseOperator.cast(view, copy));
                sources.add(new View(copy));
            } else {
                replacements.place(view.value(), places.get(i));
                sources.add(view);
            }
        }
        replacements.add(Operation.of(operator, sources, whole));
        return new AdjacentMatrices(new View(whole), ordered);
    }
}
