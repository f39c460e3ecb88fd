package cs336.compile.fuse;

import cs336.compile.program.Argument.View;
import cs336.compile.program.CallInJava;
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
        JavaOperator operator = epilogue == null ? null : fastest(epilogue.function(), epilogue.gemms());
        if (operator != null) {
            List<Operation> gemms = epilogue.gemms();
            ProgramValue result = replacements.newValue(gemms.get(0).output().layout());
            List<Operation> replaced = new ArrayList<>(List.of(last));
            replaced.addAll(gemms);
            replaced.addAll(epilogue.inner());
            replacements.replace(replaced, call(operator, gemms, result));
            replacements.place(List.of(last), result, GemmMerging.ROWS);
        }
    }

    /** Replaces X · Wᵢᵀ for all i, together or each separately. */
    private void replaceLayers(List<Operation> layers) {
        List<Operation> gemms = layers.stream()
                .filter(gemm -> !replacements.isReplaced(gemm) && fp32Weight(gemm) != null)
                .toList();
        boolean areMergeable =
                gemms.size() > 1 && gemms.stream().map(Operation::output).allMatch(replacements::canBeColumns);
        JavaOperator ofAll = areMergeable ? fastest(Epilogue.NONE, gemms) : null;
        if (ofAll != null) {
            List<View> results =
                    gemms.stream().map(gemm -> new View(gemm.output())).toList();
            ProgramValue merged = replacements.newValue(new Concatenation(GemmMerging.COLUMNS).concatenated(results));
            replacements.replace(gemms, call(ofAll, gemms, merged));
            replacements.place(gemms, merged, GemmMerging.COLUMNS);
            return;
        }
        for (Operation gemm : gemms) {
            JavaOperator operator = fastest(Epilogue.NONE, List.of(gemm));
            if (operator != null) {
                replacements.replace(List.of(gemm), call(operator, List.of(gemm), gemm.output()));
            }
        }
    }

    /** Returns the fastest operator for X · Wᵢᵀ, or null if there is none, or a weight is not fp32. */
    private JavaOperator fastest(Epilogue epilogue, List<Operation> gemms) {
        List<View> weights = gemms.stream().map(this::fp32Weight).toList();
        return weights.contains(null) ? null : kernels.fastest(epilogue, gemms, weights);
    }

    /** Returns the call of an operator with X and the weights. */
    private Operation call(JavaOperator operator, List<Operation> gemms, ProgramValue result) {
        List<View> views = new ArrayList<>(List.of(gemms.get(0).view(GemmMerging.LEFT)));
        gemms.forEach(gemm -> views.add(fp32Weight(gemm)));
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
