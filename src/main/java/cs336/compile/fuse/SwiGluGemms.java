package cs336.compile.fuse;

import cs336.compile.program.Argument;
import cs336.compile.program.Argument.Constant;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.torch.Device;
import cs336.torch.JavaOperator;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The pass that computes silu(X · W₁ᵀ) ∘ (X · W₂ᵀ) by a kernel of {@link LinearGemms} that does not store the two
 * products, where that is faster and nothing else reads them: in forward passes without gradients.
 */
final class SwiGluGemms {
    private final Program program;
    private final LinearGemms linear;
    private final Map<ProgramValue, Operation> producers = new HashMap<>();
    private final Map<ProgramValue, List<Operation>> readers = new HashMap<>();
    private final Map<ProgramValue, ProgramValue> results = new HashMap<>(); // the new ones, in two dimensions
    private int size;

    private SwiGluGemms(Program program, LinearGemms linear) {
        this.program = program;
        this.linear = linear;
        size = program.size();
        for (Operation operation : program.operations()) {
            operation.creates().forEach(value -> producers.put(value, operation));
            operation
                    .reads()
                    .forEach(view -> readers.computeIfAbsent(view.value(), v -> new ArrayList<>())
                            .add(operation));
        }
    }

    static Program of(Program program, Device device) {
        return of(program, LinearGemms.on(device));
    }

    static Program of(Program program, LinearGemms linear) {
        return new SwiGluGemms(program, linear).run();
    }

    private Program run() {
        List<Operation> operations = new ArrayList<>();
        for (Operation operation : program.operations()) {
            operations.add(fused(operation).withViews(this::moved));
        }
        return results.isEmpty()
                ? program
                : Simplification.withoutDeadOperations(program.withOperations(operations)
                        .withOutputs(this::moved)
                        .withSize(size));
    }

    private View moved(View view) {
        ProgramValue result = results.get(view.value());
        return result == null ? view : new View(result, view.layout());
    }

    /** Returns the operation that replaces the last one of SwiGLU, or the operation itself. */
    private Operation fused(Operation product) {
        Operation silu = producer(product, 0, PointwiseFunction.MUL);
        Operation onePlus = producer(silu, 1, PointwiseFunction.DIV);
        Operation exp = producer(onePlus, 0, PointwiseFunction.ADD);
        Operation minus = producer(exp, 0, PointwiseFunction.EXP);
        boolean isSwiGlu = minus != null
                && PointwiseOperator.applies(PointwiseFunction.NEG, minus)
                && isOne(onePlus.arguments().get(1))
                && minus.view(0).equals(silu.view(0));
        if (!isSwiGlu) {
            return product;
        }
        Operation first = gemm(silu.view(0), Set.of(minus, silu));
        Operation second = gemm(product.arguments().get(1), Set.of(product));
        if (first == null || second == null || !first.view(0).equals(second.view(0))) {
            return product;
        }
        View x = first.view(0);
        View w1 = first.view(1).transposed();
        View w2 = second.view(1).transposed();
        Layout layout = first.output().layout();
        JavaOperator operator = linear.swiGlu(x, w1, w2, layout);
        if (operator == null || !product.output().layout().isContiguous()) {
            return product;
        }
        var result = new ProgramValue(size++, layout);
        results.put(product.output(), result);
        return LinearGemms.operation(operator, x, List.of(w1, w2), result);
    }

    /** Returns the operation that computes an argument of an operation if that applies the function, or null. */
    private Operation producer(Operation operation, int argument, PointwiseFunction function) {
        return operation != null
                        && PointwiseOperator.applies(function, operation)
                        && operation.arguments().get(argument) instanceof View view
                        && view.readsAll()
                ? producers.get(view.value())
                : null;
    }

    private static boolean isOne(Argument argument) {
        return argument instanceof Constant constant && constant.number() == 1;
    }

    /** Returns the matrix multiplication whose result the argument is, if only these operations read it, or null. */
    private Operation gemm(Argument argument, Set<Operation> only) {
        if (!(argument instanceof View view)
                || !view.readsAll()
                || program.returned().contains(view.value())) {
            return null;
        }
        Operation producer = producers.get(view.value());
        boolean isGemm = producer != null && GemmMerging.isGemm(producer);
        return isGemm && only.containsAll(readers.get(view.value())) ? producer : null;
    }
}
