package cs336.compile.fuse;

import cs336.compile.program.CallInJava;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.kernels.gemm.Tf32x3Gemm;
import cs336.kernels.runtime.Gpu;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.Torch;
import java.util.List;

/**
 * The pass that replaces large fp32 matrix multiplications by {@link Tf32x3Gemm} on GPUs where it is faster than
 * cuBLAS. If TF32 is {@linkplain Torch#allowsTf32 allowed}, {@link LinearGemms} has a kernel for some instead.
 */
final class Fp32Gemms {
    private Fp32Gemms() {}

    /** Returns the program with large fp32 matrix multiplications replaced if the device benefits. */
    static Program of(Program program, Device device) {
        if (!device.isCuda() || Torch.allowsTf32()) {
            return program;
        }
        Gpu gpu = Gpu.of(device);
        return Tf32x3Gemm.isFasterOn(gpu) ? of(program, gpu.multiprocessors()) : program;
    }

    /**
     * Returns the program with fp32 matrix multiplications replaced that are large enough to be faster on a GPU with
     * this many multiprocessors.
     */
    static Program of(Program program, int multiprocessors) {
        return program.withOperations(program.operations().stream()
                .map(operation -> isReplaced(operation, multiprocessors) ? replacement(operation) : operation)
                .toList());
    }

    private static boolean isReplaced(Operation operation, int multiprocessors) {
        if (!GemmMerging.isGemm(operation) || operation.output().dtype() != DType.FLOAT32) {
            return false;
        }
        Layout a = operation.view(0).layout();
        Layout b = operation.view(1).layout();
        return Tf32x3Gemm.isFasterFor(a.shape()[0], b.shape()[1], a.shape()[1], multiprocessors)
                && supports(a)
                && supports(b)
                && supports(operation.output().layout());
    }

    private static boolean supports(Layout matrix) {
        return Tf32x3Gemm.supports(matrix.shape(), matrix.strides(), matrix.offset());
    }

    private static Operation replacement(Operation gemm) {
        return Operation.of(new CallInJava(new Tf32x3Gemm()), List.of(gemm.view(0), gemm.view(1)), gemm.output());
    }
}
