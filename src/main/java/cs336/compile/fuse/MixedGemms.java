package cs336.compile.fuse;

import cs336.compile.program.Argument.View;
import cs336.compile.program.CallInJava;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.ProgramValue;
import cs336.kernels.gemm.MixedGemm;
import cs336.kernels.runtime.Gpu;
import cs336.torch.Device;
import java.util.ArrayList;
import java.util.List;

/**
 * The matrix multiplications X · Wᵀ of a 16-bit X and an fp32 weight for which {@link MixedGemm} is faster than a cast
 * of the weight and cuBLAS: on Hopper GPUs.
 *
 * @param multiprocessors number of multiprocessors of the GPU; 0 if no matrix multiplication is replaced
 */
record MixedGemms(int multiprocessors) {
    static MixedGemms on(Device device) {
        boolean areUsed = device.isCuda() && MixedGemm.runsOn(Gpu.of(device));
        return new MixedGemms(areUsed ? Gpu.of(device).multiprocessors() : 0);
    }

    /**
     * Returns whether one call for all weights is faster than casts and a multiplication by cuBLAS.
     *
     * @param x the common left operand
     * @param weights the fp32 weights before their casts
     * @param results the results of the matrix multiplications
     */
    boolean isFaster(View x, List<View> weights, List<ProgramValue> results) {
        long[] shape = weights.get(0).shape();
        return multiprocessors > 0
                && weights.size() <= MixedGemm.MOST_WEIGHTS
                && supports(x.layout())
                && results.stream().allMatch(result -> supports(result.layout()))
                && weights.stream().allMatch(w -> w.shape()[0] == shape[0] && supportsWeight(w.layout()))
                && new MixedGemm.MixedProblem(x.shape()[0], shape[0], shape[1], weights.size())
                        .isFaster(multiprocessors);
    }

    private static boolean supports(Layout matrix) {
        return MixedGemm.supports(matrix.dtype(), matrix.shape(), matrix.strides(), matrix.offset());
    }

    private static boolean supportsWeight(Layout matrix) {
        return MixedGemm.supportsWeight(matrix.dtype(), matrix.shape(), matrix.strides(), matrix.offset());
    }

    /** Returns the operation that computes the results next to each other. */
    Operation operation(View x, List<View> weights, ProgramValue product) {
        List<View> views = new ArrayList<>(List.of(x));
        views.addAll(weights);
        return Operation.of(new CallInJava(new MixedGemm()), views, product);
    }
}
