package cs336.compile.fuse;

import cs336.compile.program.Operation;
import cs336.torch.DType;

/** The C++ types of elements in generated kernels. */
final class CudaType {
    private CudaType() {}

    /** Returns the type of an element in memory. */
    static String of(DType dtype) {
        return switch (dtype) {
            case FLOAT64 -> "double";
            case FLOAT32, COMPLEX64 -> "float";
            case BFLOAT16 -> "bf16";
            case FLOAT16 -> "fp16";
            case INT64 -> "long long";
            case INT32 -> "int";
            case BOOL -> "bool";
            case UINT8 -> "unsigned char";
            case UINT64 -> "unsigned long long";
        };
    }

    /** Returns the dtype of a single element in a register: 16-bit elements become fp32. */
    static DType inRegisters(DType dtype) {
        return dtype.isReducedFloatingPoint() ? DType.FLOAT32 : dtype;
    }

    /** Returns the type of the number that a pointwise operation or reduction computes, before it is rounded. */
    static String ofComputation(Operation operation) {
        return of(PointwiseOperator.computeType(operation));
    }

    /** Returns the type in which a register holds the result of an operation. */
    static String ofResult(Operation operation) {
        return of(inRegisters(operation.output().dtype()));
    }
}
