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
 */
enum PointwiseOperator implements TensorOperator {
    /** The argument, converted to the dtype of the result. */
    CAST("%1$s", x -> x[0]),
    ADD("%1$s + %2$s", x -> x[0].add(x[1])),
    SUB("%1$s - %2$s", x -> x[0].sub(x[1])),
    MUL("%1$s * %2$s", x -> x[0].mul(x[1])),
    DIV("%1$s / %2$s", x -> x[0].div(x[1])),
    MAXIMUM("maximum(%1$s, %2$s)", x -> x[0].maximum(x[1])),
    MINIMUM("minimum(%1$s, %2$s)", x -> x[0].minimum(x[1])),
    NEG("-%1$s", x -> x[0].neg()),
    ABS("abs(%1$s)", x -> x[0].abs()),
    EXP("exp(%1$s)", x -> x[0].exp()),
    LOG("log(%1$s)", x -> x[0].log()),
    SQRT("sqrt(%1$s)", x -> x[0].sqrt()),
    RSQRT("rsqrt(%1$s)", x -> x[0].rsqrt()),
    TANH("tanh(%1$s)", x -> x[0].tanh()),
    ERF("erf(%1$s)", x -> x[0].erf()),
    LT("%1$s < %2$s", x -> x[0].lt(x[1])),
    LE("%1$s <= %2$s", x -> x[0].le(x[1])),
    GT("%1$s > %2$s", x -> x[0].gt(x[1])),
    GE("%1$s >= %2$s", x -> x[0].ge(x[1])),
    EQ("%1$s == %2$s", x -> x[0].eq(x[1])),
    NE("%1$s != %2$s", x -> x[0].ne(x[1])),
    /** The second argument where the first one is true, else the third one. */
    WHERE("%1$s ? %2$s : %3$s", x -> torch.where(x[0].ne(new Scalar(0.0)), x[1], x[2])),
    /** The index of the element in the last dimension; without arguments. */
    INDEX(null, null),
    /**
     * A random integer from 0 to 2³² − 1, by {@link Philox}. The arguments are a seed, the number of a sequence, and
     * the index of the integer in this sequence.
     */
    RANDOM("philox(%1$s, %2$s, %3$s)", x -> Philox.of(x[0], x[1], x[2])),
    /** The product of complex numbers, each stored as two reals in the last dimension. */
    COMPLEX_MUL(null, x -> torch.view_as_real(complex(x[0]).mul(complex(x[1]))));

    private static final double MAX_EXACT = 1L << 53; // up to which doubles represent all integers

    private final String cuda;
    private final Function<Tensor[], Tensor> function; // of tensors of one dtype, which broadcast to the result's shape

    PointwiseOperator(String cuda, Function<Tensor[], Tensor> function) {
        this.cuda = cuda;
        this.function = function;
    }

    private static Tensor complex(Tensor pairs) {
        return torch.view_as_complex(pairs.contiguous());
    }

    /** Returns the CUDA expression of the function of these expressions. */
    String cuda(List<String> arguments) {
        return String.format(cuda, arguments.toArray());
    }

    /** Returns the operation that converts a tensor to the dtype of a value, and copies it there. */
    static Operation cast(View from, ProgramValue to) {
        return Operation.of(CAST, List.of(from), to);
    }

    @Override
    public List<Tensor> run(Operation operation, Function<View, Tensor> read, Device device) {
        Layout out = operation.output().layout();
        DType compute = computeType(operation);
        Tensor[] in = operation.arguments().stream()
                .map(argument -> argument instanceof View view ? read.apply(view) : scalar(argument, device))
                .map(tensor -> tensor.to(compute.scalarType()))
                .toArray(Tensor[]::new);
        Tensor result = out.empty(device);
        if (this == INDEX) {
            result.copy_(torch.arange(new Scalar(out.shape()[out.shape().length - 1]), device.options(out.dtype())));
        } else {
            result.copy_(function.apply(in));
        }
        return List.of(result);
    }

    /**
     * Returns a number as a tensor of its widest dtype, since a number may be too large for the computation's dtype.
     */
    private static Tensor scalar(Argument argument, Device device) {
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
        return name().toLowerCase(Locale.ROOT);
    }
}
