package cs336.compile.fuse;

import cs336.compile.program.Argument;
import cs336.compile.program.Argument.Constant;
import cs336.compile.program.Argument.View;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.Arrays;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;

/** PyTorch's rules for operands of different dtypes: a pointwise operator casts both to a common dtype. */
final class TypePromotion {
    private static final int UINT8_MASK = 0xff;

    private TypePromotion() {}

    /** Returns the common dtype of two operands, at least one of which is a tensor. */
    static DType common(Argument a, Argument b) {
        try (var scope = MemoryScope.open()) {
            if (a instanceof View first && b instanceof View second) {
                return of(torch.result_type(example(first), example(second)));
            }
            return a instanceof View first
                    ? of(torch.result_type(example(first), scalar((Constant) b)))
                    : of(torch.result_type(scalar((Constant) a), example((View) b)));
        }
    }

    private static DType of(ScalarType type) {
        return Arrays.stream(DType.values())
                .filter(dtype -> dtype.scalarType().value == type.value)
                .findFirst()
                .orElseThrow();
    }

    /** Returns a tensor of the same dtype that has dimensions if the view has: those without count less. */
    private static Tensor example(View view) {
        long[] shape = view.shape().length == 0 ? new long[0] : new long[] {0};
        return torch.zeros(shape, Device.cpu().options(view.dtype()));
    }

    private static Scalar scalar(Constant number) {
        return number.value() instanceof Long whole ? new Scalar(whole) : new Scalar(number.number());
    }

    /**
     * Returns whether a computation in the common dtype differs from that of a {@link PointwiseOperator} on the tensor
     * itself, which computes in fp32, fp64 or int64.
     */
    static boolean changes(DType dtype, DType common) {
        return switch (common) {
            case BFLOAT16, FLOAT16 -> dtype != common && dtype.bytes() > 1; // 16 bits represent all bytes
            case FLOAT32 -> dtype == DType.FLOAT64;
            case INT32 -> dtype == DType.INT64;
            case UINT8 -> dtype.bytes() > 1;
            case FLOAT64, INT64, UINT64, BOOL, COMPLEX64 -> false;
        };
    }

    /** Returns a number as the common dtype represents it: integers wrap around. */
    static Constant inRange(Constant number, DType common) {
        return switch (common) {
            case INT32 -> new Constant((long) (int) number.integer(), number.boxed());
            case UINT8 -> new Constant(number.integer() & UINT8_MASK, number.boxed());
            default -> number;
        };
    }
}
