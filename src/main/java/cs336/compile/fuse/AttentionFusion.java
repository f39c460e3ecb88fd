package cs336.compile.fuse;

import cs336.basics.FusedAttention;
import cs336.basics.FusedAttention.FusedAttentionPasses;
import cs336.compile.program.Argument.View;
import cs336.compile.program.CallInJava;
import cs336.compile.program.Interpreter;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.JavaOperator;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The pass that replaces plain attention by the operators of {@link FusedAttention}, which store no matrix [T, S]. It
 * matches these operators of a recorded program, where [N, …] are B·H matrices, with casts and copies between them:
 *
 * <pre>
 * Q̂ = Q · (1/√d)     S = bmm(Q̂, Kᵀ) [+ causal mask]     P = softmax(S)     O = bmm(P, V)
 * dV = bmm(Pᵀ, dO)   dP = bmm(dO, Vᵀ)   dS = softmax_backward(dP, P)
 * dKᵀ = bmm(Q̂ᵀ, dS)  dQ = bmm(dS, K) · (1/√d)
 * </pre>
 *
 * <p>The second and third line are absent if the program has no backward pass. A matrix [T, S] that anything else reads
 * would have to be stored anyway; then the attention is not replaced. The same holds for other scales and masks, for
 * dropout, and where no kernel supports the queries. The program must compute the mask from numbers: the elements of a
 * tensor that exists outside of it may change.
 */
final class AttentionFusion {
    /**
     * A result of the fused attention: a copy with the element order of the replaced result, and the view that it
     * copies.
     */
    private record MovedResult(ProgramValue copy, View source) {}

    private record CallLayouts(JavaOperator operator, List<Layout> inputs) {}

    private final Program program;
    private final Device device;
    private final Set<ProgramValue> overwritten;
    private final Set<ProgramValue> returned;
    private final Map<ProgramValue, Integer> positions; // of the operations that create them
    private final Map<ProgramValue, Set<Integer>> readers = new HashMap<>();
    private final Map<Integer, List<Operation>> inserted = new HashMap<>(); // before the operation of this index
    private final Map<ProgramValue, MovedResult> moved = new HashMap<>();
    private final Map<CallLayouts, List<Layout>> results = new HashMap<>();
    private int size;

    private AttentionFusion(Program program, Device device) {
        this.program = program;
        this.device = device;
        size = program.size();
        overwritten = Simplification.overwritten(program);
        returned = program.returned();
        positions = program.positions();
        for (int i = 0; i < program.operations().size(); i++) {
            for (View view : program.operations().get(i).reads()) {
                readers.computeIfAbsent(view.value(), v -> new TreeSet<>()).add(i);
            }
        }
    }

    /** Returns the program with its plain attention replaced where a kernel supports it. */
    static Program of(Program program, Device device) {
        return new AttentionFusion(program, device).run();
    }

    private Program run() {
        for (Operation operation : program.operations()) {
            int rank = is(operation, "_softmax") ? operation.view(0).shape().length : 0;
            if (rank == 3 || rank == 4) {
                new PlainAttentionMatch(operation, rank).replace();
            }
        }
        if (inserted.isEmpty()) {
            return program;
        }
        List<Operation> operations = new ArrayList<>();
        for (int i = 0; i < program.operations().size(); i++) {
            for (Operation operation : inserted.getOrDefault(i, List.of())) {
                operations.add(relocated(operation));
            }
            operations.add(relocated(program.operations().get(i)));
        }
        return Simplification.withoutDeadOperations(
                program.withOperations(operations).withOutputs(this::ofCopy).withSize(size));
    }

    /** One plain attention of the program. Methods return false if an operator differs from the pattern. */
    private final class PlainAttentionMatch {
        private final Operation softmax;
        private final View scores;
        private final long[] lead; // [B, H], or [B] without heads
        private final long queries;
        private final long keys;
        private boolean isCausal;
        private double scale;
        private View scaledQ; // an operand of a matrix multiplication, with the dimensions lead
        private View q;
        private View k;
        private View v;
        private View dO;
        private Operation output;
        private Operation gradP; // null without a backward pass
        private Operation gradV; // null if V needs no gradient, and so on
        private Operation gradK;
        private Operation scaledGradQ;

        PlainAttentionMatch(Operation softmax, int rank) {
            this.softmax = softmax;
            scores = softmax.view(0);
            lead = Arrays.copyOf(scores.shape(), rank - 2);
            queries = scores.shape()[rank - 2];
            keys = last(scores);
        }

        void replace() {
            boolean hasMatrices = queries * keys > 1 && scores.layout().elements() > 0;
            double dim = softmax.arguments().get(1).number();
            boolean isOverKeys = dim == -1 || dim == lead.length + 1;
            if (hasMatrices && isOverKeys && matchesScores() && matchesUsesOfP() && areStable()) {
                passes(scaledQ.dtype()).ifPresent(this::emit);
            }
        }

        private boolean matchesScores() {
            View s = beforeCasts(scores);
            Operation reader = softmax;
            Operation add = producer(s);
            if (is(add, "add_.Tensor") || is(add, "add.Tensor")) {
                boolean isAdded = add.arguments().get(2).number() == 1
                        && add.arguments().get(1) instanceof View mask
                        && isCausalMask(mask, add);
                if (!isAdded || !isMatrix(s) || !usedOnlyBy(s.value(), softmax)) {
                    return false;
                }
                isCausal = true;
                reader = add;
                s = beforeCasts(add.view(0));
            }
            Operation gemm = producer(s);
            if (!is(gemm, "bmm") || !isMatrix(s) || !usedOnlyBy(s.value(), reader)) {
                return false;
            }
            scaledQ = operand(gemm, 0);
            View scaled = source(scaledQ, true);
            Operation mul = producer(scaled);
            if (!is(mul, "mul.Scalar") || overwritten.contains(scaled.value())) {
                return false;
            }
            q = scaled.throughCopy(mul.output().layout(), mul.view(0));
            k = operand(gemm, 1).transposed();
            scale = mul.arguments().get(1).number();
            return q != null && scale == 1 / Math.sqrt(last(q)) && q.dtype().isFloatingPoint() && last(k) == last(q);
        }

        /** Matches the readers of the probabilities: the output, and the backward pass if there is one. */
        private boolean matchesUsesOfP() {
            ProgramValue p = softmax.output();
            List<Operation> uses = uses(p);
            Operation gradS = null;
            for (Operation use : uses) {
                if (is(use, "bmm") && isMatrix(use.view(0)) && output == null) {
                    output = use;
                } else if (is(use, "bmm") && isMatrix(use.view(0).transposed()) && gradV == null) {
                    gradV = use;
                } else if (is(use, "_softmax_backward_data") && gradS == null) {
                    gradS = use;
                } else {
                    return false;
                }
            }
            if (output == null) {
                return false;
            }
            v = operand(output, 1);
            boolean isForwardOnly = gradS == null && gradV == null;
            return Arrays.equals(v.shape(), k.shape()) && (isForwardOnly || gradS != null && matchesBackward(p, gradS));
        }

        private boolean matchesBackward(ProgramValue p, Operation gradS) {
            View dP = beforeCasts(gradS.view(0));
            View y = gradS.view(1);
            gradP = producer(dP);
            if (!is(gradP, "bmm") || !isMatrix(dP) || y.value() != p || !isMatrix(y)) {
                return false;
            }
            dO = operand(gradP, 0);
            boolean isGradP = usedOnlyBy(dP.value(), gradS)
                    && same(v, operand(gradP, 1).transposed())
                    && (gradV == null || same(dO, operand(gradV, 1)));
            if (!isGradP) {
                return false;
            }
            for (Operation use : uses(gradS.output())) {
                if (is(use, "bmm") && isMatrix(use.view(0)) && scaledGradQ == null) {
                    List<Operation> scalings = uses(use.output());
                    scaledGradQ = scalings.size() == 1 ? scalings.get(0) : null;
                    boolean isGradQ = is(scaledGradQ, "mul.Scalar")
                            && scaledGradQ.arguments().get(1).number() == scale
                            && readsInOrder(scaledGradQ.view(0), q.shape())
                            && same(k, operand(use, 1));
                    if (!isGradQ) {
                        return false;
                    }
                } else if (is(use, "bmm") && isMatrix(use.view(1)) && gradK == null) {
                    if (!same(scaledQ, operand(use, 0).transposed())) {
                        return false;
                    }
                    gradK = use;
                } else {
                    return false;
                }
            }
            return true;
        }

        /** Returns whether nothing overwrites the operands and results. */
        private boolean areStable() {
            return Stream.of(q, k, v, dO).noneMatch(read -> read != null && overwritten.contains(read.value()))
                    && Stream.of(output, gradV, gradK, scaledGradQ)
                            .filter(Objects::nonNull)
                            .map(Operation::output)
                            .allMatch(result -> !overwritten.contains(result)
                                    && result.layout().isContiguous());
        }

        private void emit(FusedAttentionPasses passes) {
            DType dtype = scaledQ.dtype();
            int start = positions.get(output.output());
            View narrow = q.dtype() == dtype ? q : cast(start, dtype);
            List<View> inputs = new ArrayList<>(List.of(narrow, k, v));
            List<View> outputs = call(start, passes.forward(), inputs);
            move(output, outputs.get(0));
            if (gradP == null) {
                return;
            }
            inputs.addAll(outputs);
            inputs.add(dO);
            int first = positions.get(gradP.output());
            first = gradV == null ? first : Math.min(first, positions.get(gradV.output()));
            List<View> gradients = call(first, passes.backward(), inputs);
            move(scaledGradQ, gradients.get(0));
            move(gradK, gradients.get(1).transposed());
            move(gradV, gradients.get(2));
        }

        private Optional<FusedAttentionPasses> passes(DType dtype) {
            try (var scope = MemoryScope.open()) {
                return FusedAttention.find(example(Layout.contiguous(dtype, q.shape())), isCausal);
            }
        }

        private View cast(int before, DType dtype) {
            Layout like = q.layout();
            ProgramValue narrow = newValue(
                    like.isDense()
                            ? new Layout(dtype, like.shape(), like.strides(), 0, false)
                            : Layout.contiguous(dtype, like.shape()));
            insert(before, PointwiseOperator.cast(q, narrow));
            return new View(narrow);
        }

        /** Returns whether a tensor is a matrix [T, S] for each of the leading dimensions, in row-major order. */
        private boolean isMatrix(View view) {
            return readsInOrder(view, withLead(queries, keys));
        }

        private long[] withLead(long rows, long columns) {
            return LongStream.concat(Arrays.stream(lead), LongStream.of(rows, columns))
                    .toArray();
        }

        /** Returns the operand of a batched matrix multiplication, or what it is a copy of. */
        private View operand(Operation gemm, int side) {
            return source(withLead(gemm.view(side)), false);
        }

        /** Returns [N, rows, columns] with the leading dimensions of the scores instead of N. */
        private View withLead(View view) {
            Layout from = view.layout();
            long[] shape = withLead(from.shape()[1], from.shape()[2]);
            long[] strides = new long[shape.length];
            long stride = from.strides()[0];
            for (int i = lead.length - 1; i >= 0; i--) {
                strides[i] = stride;
                stride *= lead[i];
            }
            strides[lead.length] = from.strides()[1];
            strides[lead.length + 1] = from.strides()[2];
            return new View(view.value(), new Layout(from.dtype(), shape, strides, from.offset(), from.conjugated()));
        }

        /** Returns whether the program computes a mask from numbers, which is 0 for keys j ≤ i and −∞ elsewhere. */
        private boolean isCausalMask(View mask, Operation reader) {
            if (!Arrays.equals(mask.shape(), new long[] {queries, keys})) {
                return false;
            }
            int end = positions.get(reader.creates().get(0));
            List<Operation> before = program.operations().subList(0, end);
            Program alone = Simplification.withoutDeadOperations(
                    new Program(List.of(), Map.of(), before, List.of(mask), program.size()));
            Set<ProgramValue> outside = program.outside();
            boolean isConstant = Stream.concat(Stream.of(mask), alone.reads())
                            .noneMatch(view -> outside.contains(view.value().root()))
                    && alone.operations().stream()
                            .noneMatch(operation -> operation.operator().isRandom());
            if (!isConstant) {
                return false;
            }
            try (var scope = MemoryScope.open();
                    var noGrad = NoGrad.open()) {
                Tensor computed = new Interpreter(alone).run()[0];
                Tensor infinite = torch.full_like(computed, new Scalar(Double.NEGATIVE_INFINITY));
                return torch.equal(computed, infinite.triu_(1));
            }
        }
    }

    // ---- the program

    private static boolean is(Operation operation, String name) {
        return operation != null && operation.operator().toString().equals(name);
    }

    private Operation producer(View view) {
        Integer index = positions.get(view.value());
        return index == null ? null : program.operations().get(index);
    }

    private static boolean isCopy(Operation operation) {
        return is(operation, "clone")
                || is(operation, "_to_copy")
                        && operation.output().dtype() != operation.view(0).dtype();
    }

    /** Returns the view of which a view is a cast or copy with the same order of elements, or the view itself. */
    private View beforeCasts(View view) {
        Operation copy = producer(view);
        boolean isCast = isCopy(copy) && readsInOrder(view) && readsInOrder(copy.view(0));
        return isCast ? beforeCasts(copy.view(0)) : view;
    }

    /** Returns the operations that read a value or its casts; with a null if the program returns one of them. */
    private List<Operation> uses(ProgramValue value) {
        List<Operation> uses = new ArrayList<>();
        if (returned.contains(value)) {
            uses.add(null);
        }
        for (int i : readers.getOrDefault(value, Set.of())) {
            Operation reader = program.operations().get(i);
            boolean isCast = isCopy(reader) && reader.output().layout().isContiguous() && readsInOrder(reader.view(0));
            uses.addAll(isCast ? uses(reader.output()) : List.of(reader));
        }
        return uses;
    }

    private boolean usedOnlyBy(ProgramValue value, Operation reader) {
        List<Operation> uses = uses(value);
        return uses.size() == 1 && uses.get(0) == reader;
    }

    /** Returns the view of which a view is a copy, or with {@code throughCasts} also a cast; or the view itself. */
    private View source(View view, boolean throughCasts) {
        Operation copy = producer(view);
        if (!isCopy(copy) || !throughCasts && is(copy, "_to_copy")) {
            return view;
        }
        View from = copy.view(0);
        View read = view.throughCopy(copy.output().layout(), from);
        return read == null || overwritten.contains(from.value()) ? view : source(read, throughCasts);
    }

    // ---- rewriting

    private ProgramValue newValue(Layout layout) {
        return new ProgramValue(size++, layout);
    }

    private void insert(int before, Operation operation) {
        inserted.computeIfAbsent(before, i -> new ArrayList<>()).add(operation);
    }

    private List<View> call(int before, JavaOperator operator, List<View> inputs) {
        List<Layout> layouts = inputs.stream().map(View::layout).toList();
        ProgramValue[] values = results.computeIfAbsent(new CallLayouts(operator, layouts), this::resultsOf).stream()
                .map(this::newValue)
                .toArray(ProgramValue[]::new);
        insert(before, Operation.of(new CallInJava(operator), inputs, values));
        return Arrays.stream(values).map(View::new).toList();
    }

    /** Runs an operator on zeros to determine the layouts of its results. */
    private List<Layout> resultsOf(CallLayouts call) {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Tensor[] inputs = call.inputs().stream().map(this::example).toArray(Tensor[]::new);
            return Arrays.stream(call.operator().compute(inputs))
                    .map(Layout::of)
                    .toList();
        }
    }

    private Tensor example(Layout layout) {
        Tensor storage = torch.zeros(new long[] {layout.end()}, device.options(layout.dtype()));
        return layout.view(storage);
    }

    /** Makes the readers of an operation's result read another tensor, with dimensions for B and H. */
    private void move(Operation result, View source) {
        if (result == null) {
            return;
        }
        ProgramValue old = result.output();
        ProgramValue copy = newValue(Layout.contiguous(old.dtype(), source.shape()));
        insert(positions.get(old), PointwiseOperator.cast(source, copy));
        moved.put(old, new MovedResult(copy, source));
    }

    /**
     * Returns an operation that reads moved results. It reads the copies, or their sources if the layout of its own
     * result does not depend on the strides of its arguments.
     */
    private Operation relocated(Operation operation) {
        if (operation.reads().stream().noneMatch(view -> moved.containsKey(view.value()))) {
            return operation;
        }
        if (isCopy(operation)) {
            return PointwiseOperator.cast(ofSource(operation.view(0)), operation.output());
        }
        boolean isGemm = is(operation, "mm") || is(operation, "bmm");
        return operation.withViews(isGemm || is(operation, "cast") ? this::ofSource : this::ofCopy);
    }

    private View ofCopy(View view) {
        MovedResult result = moved.get(view.value());
        return result == null ? view : new View(result.copy(), view.layout());
    }

    private View ofSource(View view) {
        MovedResult result = moved.get(view.value());
        boolean isSameType =
                result != null && result.copy().dtype() == result.source().dtype();
        View read = isSameType ? view.throughCopy(result.copy().layout(), result.source()) : null;
        return read == null ? ofCopy(view) : read;
    }

    // ---- layouts

    private static long last(View view) {
        return view.shape()[view.shape().length - 1];
    }

    /** Returns whether a view reads all elements of a contiguous value in their order. */
    private static boolean readsInOrder(View view) {
        return view.readsAll()
                && view.value().layout().isContiguous()
                && view.layout().offset() == 0;
    }

    /** Returns whether such a view has a shape, with its leading dimensions merged or not. */
    private static boolean readsInOrder(View view, long[] shape) {
        int rank = shape.length;
        long matrices = Arrays.stream(shape, 0, rank - 2).reduce(1, (a, b) -> a * b);
        long[] merged = {matrices, shape[rank - 2], shape[rank - 1]};
        return readsInOrder(view) && (Arrays.equals(view.shape(), shape) || Arrays.equals(view.shape(), merged));
    }

    private static boolean same(View a, View b) {
        return a.value() == b.value()
                && a.layout().offset() == b.layout().offset()
                && a.dtype() == b.dtype()
                && Simplification.sameStrides(a.layout(), b.layout());
    }
}
