package cs336.compile.fuse;

import cs336.compile.program.CallInJava;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.kernels.gemm.Fp32Gemm;
import cs336.kernels.runtime.Fp32Emulation;
import cs336.kernels.runtime.Gpu;
import cs336.torch.DType;
import cs336.torch.Device;
import java.util.stream.Stream;

/**
 * The pass that replaces fp32 matrix multiplications by {@link Fp32Gemm} on GPUs and for sizes where it is faster than
 * cuBLAS, with the {@linkplain Fp32Emulation#allowed emulation that is allowed}.
 */
final class Fp32Gemms {
    private Fp32Gemms() {}

    /** Returns the program with fp32 matrix multiplications replaced if the device benefits. */
    static Program of(Program program, Device device) {
        if (!device.isCuda() || !Gpu.of(device).runsHopperKernels()) {
            return program;
        }
        return of(program, new Fp32Gemm(Fp32Emulation.allowed()), Gpu.of(device).multiprocessors());
    }

    /** Returns the program with those replaced for which the kernel is faster with this many multiprocessors. */
    static Program of(Program program, Fp32Gemm kernel, int multiprocessors) {
        return program.withOperations(program.operations().stream()
                .map(operation -> isReplaced(operation, kernel, multiprocessors)
                        ? Operation.of(new CallInJava(kernel), operation.arguments(), operation.output())
                        : operation)
                .toList());
    }

    private static boolean isReplaced(Operation operation, Fp32Gemm kernel, int multiprocessors) {
        if (!GemmMerging.isGemm(operation) || operation.output().dtype() != DType.FLOAT32) {
            return false;
        }
        Layout a = operation.view(0).layout();
        Layout b = operation.view(1).layout();
        Layout out = operation.output().layout();
        return Stream.of(a, b, out)
                        .allMatch(matrix -> Fp32Gemm.supports(matrix.shape(), matrix.strides(), matrix.offset()))
                && out.isContiguous()
                && kernel.isFaster(a.shape(), a.strides(), b.shape(), b.strides(), multiprocessors);
    }
}
