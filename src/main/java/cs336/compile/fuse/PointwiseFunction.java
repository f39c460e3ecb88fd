package cs336.compile.fuse;

import java.util.List;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** A function of numbers that a {@link PointwiseOperator} operation applies to each element. */
enum PointwiseFunction {
    /** Its argument; converts it to the dtype of the result. */
    CAST("%1$s"),
    ADD("%1$s + %2$s"),
    SUB("%1$s - %2$s"),
    MUL("%1$s * %2$s"),
    DIV("%1$s / %2$s"),
    MAXIMUM("maximum(%1$s, %2$s)"),
    MINIMUM("minimum(%1$s, %2$s)"),
    NEG("-%1$s"),
    ABS("abs(%1$s)"),
    EXP("exp(%1$s)"),
    LOG("log(%1$s)"),
    SQRT("sqrt(%1$s)"),
    RSQRT("rsqrt(%1$s)"),
    TANH("tanh(%1$s)"),
    ERF("erf(%1$s)"),
    LT("%1$s < %2$s"),
    LE("%1$s <= %2$s"),
    GT("%1$s > %2$s"),
    GE("%1$s >= %2$s"),
    EQ("%1$s == %2$s"),
    NE("%1$s != %2$s"),
    /** The second argument where the first one is true, else the third one. */
    WHERE("%1$s ? %2$s : %3$s"),
    /** The index of the element in the last dimension. */
    INDEX("column"),
    /** The product of complex numbers, each stored as two reals in the last dimension. */
    COMPLEX_MUL(null);

    private final String cuda;

    PointwiseFunction(String cuda) {
        this.cuda = cuda;
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
    Tensor apply(List<Tensor> in) {
        return switch (this) {
            case CAST -> in.get(0);
            case ADD -> in.get(0).add(in.get(1));
            case SUB -> in.get(0).sub(in.get(1));
            case MUL -> in.get(0).mul(in.get(1));
            case DIV -> in.get(0).div(in.get(1));
            case MAXIMUM -> in.get(0).maximum(in.get(1));
            case MINIMUM -> in.get(0).minimum(in.get(1));
            case NEG -> in.get(0).neg();
            case ABS -> in.get(0).abs();
            case EXP -> in.get(0).exp();
            case LOG -> in.get(0).log();
            case SQRT -> in.get(0).sqrt();
            case RSQRT -> in.get(0).rsqrt();
            case TANH -> in.get(0).tanh();
            case ERF -> in.get(0).erf();
            case LT -> in.get(0).lt(in.get(1));
            case LE -> in.get(0).le(in.get(1));
            case GT -> in.get(0).gt(in.get(1));
            case GE -> in.get(0).ge(in.get(1));
            case EQ -> in.get(0).eq(in.get(1));
            case NE -> in.get(0).ne(in.get(1));
            case WHERE -> torch.where(in.get(0).ne(new Scalar(0.0)), in.get(1), in.get(2));
            case COMPLEX_MUL ->
                torch.view_as_real(torch.view_as_complex(in.get(0).contiguous())
                        .mul(torch.view_as_complex(in.get(1).contiguous())));
            case INDEX -> throw new IllegalStateException("INDEX has no arguments");
        };
    }
}
