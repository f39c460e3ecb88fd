package cs336.compile.fuse;

import cs336.compile.program.Argument.View;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.kernels.gemm.Epilogue;
import cs336.kernels.gemm.LinearProblem;
import cs336.kernels.gemm.MixedGemm;
import cs336.kernels.gemm.Tf32Gemm;
import cs336.kernels.runtime.Gpu;
import cs336.torch.Device;
import cs336.torch.JavaOperator;
import cs336.torch.Torch;
import java.util.List;
import java.util.stream.Stream;

/**
 * The kernels of this project for the matrix multiplications X · Wᵢᵀ of linear layers with a common input and fp32
 * weights. {@link MixedGemm} is for a 16-bit X. {@link Tf32Gemm} is for an fp32 X if TF32 is
 * {@linkplain Torch#allowsTf32 allowed}. Both need a Hopper GPU, and can compute {@link EpilogueOperations}.
 *
 * @param multiprocessors number of multiprocessors of the GPU
 * @param allowsTf32 whether operands may be rounded to TF32
 */
record LinearKernels(int multiprocessors, boolean allowsTf32) {
    /** For devices on which none of the kernels runs. */
    static final LinearKernels NONE = new LinearKernels(0, false);

    static LinearKernels on(Device device) {
        if (!device.isCuda()) {
            return NONE;
        }
        Gpu gpu = Gpu.of(device);
        return gpu.runsHopperKernels() ? new LinearKernels(gpu.multiprocessors(), Torch.allowsTf32()) : NONE;
    }

    /**
     * Returns the operator that multiplies with all weights in one call, or null if none supports the operands, or
     * cuBLAS, with a cast of the weights if X has 16 bits, is faster.
     *
     * @param epilogue the function of the results that the operator computes
     * @param gemms the matrix multiplications, with a common left operand X
     * @param weights the weights Wᵢ in fp32
     */
    JavaOperator fastest(Epilogue epilogue, List<Operation> gemms, List<View> weights) {
        long[] shape = weights.get(0).shape();
        boolean areEqual = weights.stream().allMatch(w -> w.shape()[0] == shape[0]);
        if (!areEqual || weights.size() > LinearProblem.MOST_WEIGHTS) {
            return null;
        }
        View x = gemms.get(0).view(GemmMerging.LEFT);
        Stream<Layout> results = gemms.stream().map(gemm -> gemm.output().layout());
        List<Layout> outer = Stream.concat(Stream.of(x.layout()), results).toList();
        List<Layout> inner = weights.stream().map(View::layout).toList();
        var problem = new LinearProblem(x.shape()[0], shape[0], shape[1], weights.size());
        var tf32 = new Tf32Gemm(epilogue);
        if (allowsTf32
                && outer.stream().allMatch(LinearKernels::isForTf32)
                && inner.stream().allMatch(LinearKernels::isForTf32)
                && tf32.isFaster(problem, multiprocessors)) {
            return tf32;
        }
        var mixed = new MixedGemm(epilogue);
        boolean isMixed = outer.stream().allMatch(LinearKernels::isForMixed)
                && inner.stream().allMatch(LinearKernels::isWeightForMixed)
                && mixed.isFaster(problem, multiprocessors);
        return isMixed ? mixed : null;
    }

    private static boolean isForTf32(Layout matrix) {
        return Tf32Gemm.supports(matrix.dtype(), matrix.shape(), matrix.strides(), matrix.offset());
    }

    private static boolean isForMixed(Layout matrix) {
        return MixedGemm.supports(matrix.dtype(), matrix.shape(), matrix.strides(), matrix.offset());
    }

    private static boolean isWeightForMixed(Layout matrix) {
        return MixedGemm.supportsWeight(matrix.dtype(), matrix.shape(), matrix.strides(), matrix.offset());
    }
}
