package cs336.compile.fuse;

import cs336.compile.program.Argument;
import cs336.compile.program.Argument.Constant;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.ProgramValue;
import cs336.compile.program.TensorOperator;
import cs336.torch.DType;
import cs336.torch.Device;
import java.util.List;
import java.util.Locale;
import java.util.function.Function;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * An operator that computes each element of its output from one element of each argument. The arguments are views with
 * the shape of the output, or numbers. It computes in fp32, in fp64 if a tensor is fp64, or in int64 if there are only
 * integers, and rounds once to the output's dtype.
 *
 * @param function the function of one element of each argument
 * @param device the device of the output
 */
record PointwiseOperator(PointwiseFunction function, Device device) implements TensorOperator {
    private static final double MAX_EXACT = 1L << 53; // up to which doubles represent all integers

    /** Returns the operation that converts a tensor to the dtype of a value, and copies it there. */
    static Operation cast(View from, ProgramValue to, Device device) {
        return Operation.of(new PointwiseOperator(PointwiseFunction.CAST, device), List.of(from), to);
    }

    /** Returns whether an operation applies a function. */
    static boolean applies(PointwiseFunction function, Operation operation) {
        return operation.operator() instanceof PointwiseOperator pointwise && pointwise.function == function;
    }

    @Override
    public List<Tensor> run(Operation operation, Function<View, Tensor> read) {
        Layout out = operation.output().layout();
        DType compute = computeType(operation);
        Tensor[] in = operation.arguments().stream()
                .map(argument -> argument instanceof View view ? read.apply(view) : scalar(argument))
                .map(tensor -> tensor.to(compute.scalarType()))
                .toArray(Tensor[]::new);
        Tensor result = out.empty(device);
        if (function == PointwiseFunction.INDEX) {
            result.copy_(torch.arange(new Scalar(out.shape()[out.shape().length - 1]), device.options(out.dtype())));
        } else {
            result.copy_(function.apply(in));
        }
        return List.of(result);
    }

    /**
     * Returns a number as a tensor of its widest dtype, since a number may be too large for the computation's dtype.
     */
    private Tensor scalar(Argument argument) {
        return ((Constant) argument).value() instanceof Long number
                ? torch.scalar_tensor(new Scalar(number), device.options(DType.INT64))
                : torch.scalar_tensor(new Scalar(argument.number()), device.options(DType.FLOAT64));
    }

    /**
     * Returns the dtype of the computation of a pointwise or reduction operation: int64 if the output and all arguments
     * are integers or booleans.
     */
    static DType computeType(Operation operation) {
        DType out = operation.output().dtype();
        if (isInteger(out) && operation.arguments().stream().allMatch(PointwiseOperator::isInteger)) {
            return DType.INT64;
        }
        boolean wide =
                out == DType.FLOAT64 || operation.reads().stream().anyMatch(view -> view.dtype() == DType.FLOAT64);
        return wide ? DType.FLOAT64 : DType.FLOAT32;
    }

    static boolean isInteger(Argument argument) {
        if (argument instanceof View view) {
            return isInteger(view.dtype());
        }
        double number = argument.number();
        return ((Constant) argument).value() instanceof Long
                || number == Math.rint(number) && Math.abs(number) <= MAX_EXACT;
    }

    private static boolean isInteger(DType dtype) {
        return dtype == DType.INT64 || dtype == DType.INT32 || dtype == DType.UINT8 || dtype == DType.BOOL;
    }

    @Override
    public String toString() {
        return function.name().toLowerCase(Locale.ROOT);
    }
}
