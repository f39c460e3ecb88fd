package cs336.compile.fuse;

import cs336.compile.program.Argument.View;
import cs336.compile.program.CallInJava;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.kernels.gemm.Tf32Gemm;
import cs336.kernels.runtime.Gpu;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.List;

/**
 * The matrix multiplications X · Wᵀ for which {@link Tf32Gemm} is faster than cuBLAS: on Hopper GPUs, if TF32 is
 * {@linkplain Torch#allowsTf32 allowed}.
 *
 * @param multiprocessors number of multiprocessors of the GPU; 0 if no matrix multiplication is replaced
 */
record Tf32Gemms(int multiprocessors) {
    static Tf32Gemms on(Device device) {
        boolean areUsed = device.isCuda() && Torch.allowsTf32() && Tf32Gemm.runsOn(Gpu.of(device));
        return new Tf32Gemms(areUsed ? Gpu.of(device).multiprocessors() : 0);
    }

    /** Returns the program with the matrix multiplications replaced that are faster one by one. */
    Program of(Program program) {
        if (multiprocessors == 0) {
            return program;
        }
        return program.withOperations(program.operations().stream()
                .map(operation -> GemmMerging.isGemm(operation)
                                && supports(List.of(operation))
                                && problem(List.of(operation)).isFaster(multiprocessors)
                        ? together(List.of(operation), operation.output())
                        : operation)
                .toList());
    }

    /** Returns whether matrix multiplications X · Wᵢᵀ with the same X are faster as one. */
    boolean areFasterTogether(List<Operation> gemms) {
        return multiprocessors > 0
                && gemms.size() <= Tf32Gemm.MOST_WEIGHTS
                && supports(gemms)
                && problem(gemms).isFaster(multiprocessors)
                && problem(gemms).isFasterThanSeparateOnes(multiprocessors);
    }

    /**
     * Returns one operation in place of matrix multiplications X · Wᵢᵀ.
     *
     * @param product the results next to each other
     */
    Operation together(List<Operation> gemms, ProgramValue product) {
        List<View> views = new ArrayList<>();
        views.add(gemms.get(0).view(0));
        gemms.forEach(gemm -> views.add(gemm.view(1)));
        return Operation.of(new CallInJava(new Tf32Gemm()), views, product);
    }

    private static boolean supports(List<Operation> gemms) {
        View first = gemms.get(0).view(1);
        return supports(gemms.get(0).view(0).layout())
                && gemms.stream().allMatch(gemm -> {
                    View weight = gemm.view(1);
                    return supports(weight.transposed().layout())
                            && weight.shape()[1] == first.shape()[1]
                            && supports(gemm.output().layout());
                });
    }

    private static boolean supports(Layout matrix) {
        return matrix.dtype() == DType.FLOAT32 && Tf32Gemm.supports(matrix.shape(), matrix.strides(), matrix.offset());
    }

    private static Tf32Gemm.Tf32Problem problem(List<Operation> gemms) {
        View x = gemms.get(0).view(0);
        return new Tf32Gemm.Tf32Problem(x.shape()[0], gemms.get(0).view(1).shape()[1], x.shape()[1], gemms.size());
    }
}
