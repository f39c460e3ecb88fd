package cs336.compile.fuse;

import java.util.List;
import java.util.function.Function;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** A function of numbers that a {@link PointwiseOperator} operation applies to each element. */
enum PointwiseFunction {
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

    private final String cuda;
    private final Function<Tensor[], Tensor> function;

    PointwiseFunction(String cuda, Function<Tensor[], Tensor> function) {
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

    /**
     * Applies the function by tensor operations.
     *
     * @param in tensors of one dtype, which broadcast to the shape of the result
     */
    Tensor apply(Tensor... in) {
        return function.apply(in);
    }
}
