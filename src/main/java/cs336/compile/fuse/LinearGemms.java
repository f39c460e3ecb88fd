package cs336.compile.fuse;

import cs336.compile.program.Argument.View;
import cs336.compile.program.CallInJava;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.kernels.gemm.Epilogue;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.JavaOperator;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The pass that replaces the matrix multiplications X · Wᵢᵀ of linear layers with fp32 weights by {@link LinearKernels}
 * where that is faster: all of {@link EpilogueOperations}, several weights together, or one. The weights may be cast,
 * if nothing else reads the cast.
 */
final class LinearGemms {
    private final LinearKernels kernels;
    private final Program program;
    private final Replacements replacements;

    private LinearGemms(Program program, LinearKernels kernels) {
        this.program = program;
        this.kernels = kernels;
        replacements = new Replacements(program);
    }

    /** Returns the program with kernels of the device for its linear layers. */
    static Program of(Program program, Device device) {
        return of(program, LinearKernels.on(device));
    }

    static Program of(Program program, LinearKernels kernels) {
        return kernels.equals(LinearKernels.NONE) || !program.isPure()
                ? program
                : new LinearGemms(program, kernels).run();
    }

    private Program run() {
        program.operations().forEach(this::replaceEpilogue);
        GemmMerging.withCommonInput(program).forEach(this::replaceLayers);
        return replacements.applied(program.constants());
    }

    /** Replaces matrix multiplications and the epilogue that ends with this operation. */
    private void replaceEpilogue(Operation last) {
        EpilogueOperations epilogue = EpilogueOperations.endingWith(last, replacements);
        if (epilogue == null) {
            return;
        }
        List<Operation> gemms = epilogue.gemms();
        List<View> weights = gemms.stream().map(this::fp32Weight).toList();
        JavaOperator operator = weights.contains(null) ? null : fastest(epilogue.function(), gemms, weights);
        if (operator != null) {
            ProgramValue result = replacements.newValue(gemms.get(0).output().layout());
            List<Operation> replaced = new ArrayList<>(List.of(last));
            replaced.addAll(gemms);
            replaced.addAll(epilogue.inner());
            replacements.replace(replaced, call(operator, gemms, weights, result));
            replacements.place(List.of(last), result, GemmMerging.ROWS);
        }
    }

    /** Replaces X · Wᵢᵀ for all i, together or each separately. */
    private void replaceLayers(List<Operation> layers) {
        List<Operation> gemms = new ArrayList<>();
        List<View> weights = new ArrayList<>();
        for (Operation gemm : layers) {
            View weight = replacements.isReplaced(gemm) ? null : fp32Weight(gemm);
            if (weight != null) {
                gemms.add(gemm);
                weights.add(weight);
            }
        }
        boolean canBeColumns = gemms.stream().map(Operation::output).allMatch(replacements::canBeColumns);
        if (gemms.size() > 1 && canBeColumns) {
            JavaOperator operator = fastest(Epilogue.NONE, gemms, weights);
            if (operator != null) {
                Layout first = gemms.get(0).output().layout();
                long columns = gemms.stream()
                        .mapToLong(gemm -> gemm.output().shape()[1])
                        .sum();
                ProgramValue merged =
                        replacements.newValue(Layout.contiguous(first.dtype(), first.shape()[0], columns));
                replacements.replace(gemms, call(operator, gemms, weights, merged));
                replacements.place(gemms, merged, GemmMerging.COLUMNS);
                return;
            }
        }
        for (int i = 0; i < gemms.size(); i++) {
            List<Operation> gemm = gemms.subList(i, i + 1);
            List<View> weight = weights.subList(i, i + 1);
            JavaOperator operator = fastest(Epilogue.NONE, gemm, weight);
            if (operator != null) {
                replacements.replace(
                        gemm, call(operator, gemm, weight, gemms.get(i).output()));
            }
        }
    }

    private JavaOperator fastest(Epilogue epilogue, List<Operation> gemms, List<View> weights) {
        return kernels.fastest(
                epilogue,
                gemms.get(0).view(GemmMerging.LEFT),
                weights,
                gemms.stream().map(Operation::output).toList());
    }

    /** Returns the call of an operator with X and the weights. */
    private static Operation call(
            JavaOperator operator, List<Operation> gemms, List<View> weights, ProgramValue result) {
        List<View> views = new ArrayList<>(List.of(gemms.get(0).view(GemmMerging.LEFT)));
        views.addAll(weights);
        return Operation.of(new CallInJava(operator), views, result);
    }

    /**
     * Returns the weight W of X · Wᵀ in fp32: the right operand, or the input or constant of which only this operation
     * reads a cast. Returns null if there is none.
     */
    private View fp32Weight(Operation gemm) {
        View right = gemm.view(GemmMerging.RIGHT).transposed();
        if (right.dtype() == DType.FLOAT32) {
            return right;
        }
        Operation producer = replacements.producer(right.value());
        boolean isCast = producer != null
                && producer.operator() == PointwiseOperator.CAST
                && Arrays.equals(producer.view(0).shape(), right.shape())
                && replacements.producer(producer.view(0).value()) == null;
        return isCast && replacements.timesRead(right.value()) == 1 ? producer.view(0) : null;
    }
}
