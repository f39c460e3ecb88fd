package cs336.precision;

import static cs336.precision.LayerNormStep.CENTRING;
import static cs336.precision.LayerNormStep.MEAN;
import static cs336.precision.LayerNormStep.PRODUCT;
import static cs336.precision.LayerNormStep.ROOT;
import static cs336.precision.LayerNormStep.SQUARES;
import static cs336.precision.LayerNormStep.VARIANCE;

import cs336.basics.Normalization;
import cs336.bench.ArgumentCheck;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.ScalarTypeOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;

/**
 * A layer normalization without affine parameters, (x − mean) · 1 ÷ √(variance + 1e-5) over rows. It runs selected
 * steps in a low-precision type and the others in fp32. Its error against fp64 shows which steps need more precision.
 */
public final class LowPrecisionLayerNorm {
    /** The distributions of the input elements, which are independent and normally distributed. */
    public enum Input {
        /** Mean 0, standard deviation 1. */
        ORDINARY("ordinary", 0, 1),
        /** Mean 10, standard deviation 1. */
        OFF_CENTRE("off-centre", 10, 1),
        /** Mean 0, standard deviation 300: squares overflow in fp16. */
        LARGE("large", 0, 300),
        /** Mean 0, standard deviation 0.003: squares are subnormal in fp16. */
        SMALL("small", 0, 0.003);

        private final String label;
        private final double mean;
        private final double standardDeviation;

        Input(String label, double mean, double standardDeviation) {
            this.label = label;
            this.mean = mean;
            this.standardDeviation = standardDeviation;
        }

        /**
         * Returns random rows, fp64 [rows, width], rounded to a low-precision type, so that the conversion to it is
         * exact.
         *
         * @param narrow the low-precision type
         */
        public Tensor draw(int rows, int width, DType narrow, Device device) {
            try (var scope = MemoryScope.open()) {
                Tensor normal = torch.randn(new long[] {rows, width}, device.options(DType.FLOAT32));
                Tensor x = normal.mul(new Scalar(standardDeviation)).add(new Scalar(mean));
                return scope.escape(x.to(narrow.scalarType()).to(ScalarType.Double));
            }
        }

        /** Returns the input with this label, such as {@code off-centre}. */
        static Input parse(String label) {
            return ArgumentCheck.oneOf("input", label, List.of(values()));
        }

        @Override
        public String toString() {
            return label;
        }
    }

    private static final long[] LAST_DIMENSION = {-1};

    private final DType narrow;
    private final Set<LayerNormStep> narrowed;

    private LowPrecisionLayerNorm(DType narrow, Set<LayerNormStep> narrowed) {
        this.narrow = narrow;
        this.narrowed = narrowed;
    }

    /** Creates a layer normalization with the given steps in the low-precision type. */
    public static LowPrecisionLayerNorm of(DType narrow, Set<LayerNormStep> narrowed) {
        return new LowPrecisionLayerNorm(
                narrow, narrowed.isEmpty() ? EnumSet.noneOf(LayerNormStep.class) : EnumSet.copyOf(narrowed));
    }

    /**
     * Normalizes the rows of x: [rows, width] or [width] → fp32 of the same shape, in the caller's memory scope.
     *
     * @throws IllegalArgumentException if x has another number of dimensions or is not floating-point
     */
    public Tensor apply(Tensor x) {
        requireFloating(x);
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Tensor mean = sum(x, MEAN).div(new Scalar((double) x.size(-1)));
            Tensor centred = cast(CENTRING, x).sub(cast(CENTRING, mean));
            Tensor squares = cast(SQUARES, centred).square();
            Tensor variance = sum(squares, VARIANCE).div(new Scalar((double) x.size(-1)));
            Tensor root = cast(ROOT, variance).add(eps()).rsqrt();
            Tensor y = cast(PRODUCT, centred).mul(cast(PRODUCT, root));
            return scope.escape(y.to(ScalarType.Float));
        }
    }

    private static Scalar eps() {
        return new Scalar(Normalization.EPS);
    }

    /** Converts a tensor to the type of a step. */
    private Tensor cast(LayerNormStep step, Tensor x) {
        return x.to(narrowed.contains(step) ? narrow.scalarType() : ScalarType.Float);
    }

    /**
     * Sums each row, [rows, width] → [rows, 1]: in the low-precision type one element at a time, in fp32 with
     * torch.sum.
     */
    private Tensor sum(Tensor x, LayerNormStep step) {
        Tensor terms = cast(step, x);
        if (!narrowed.contains(step)) {
            return terms.sum(LAST_DIMENSION, true, new ScalarTypeOptional());
        }
        Tensor columns = terms.t().contiguous(); // [width, rows]
        Tensor sum = torch.zeros_like(columns.select(0, 0));
        for (long i = 0; i < columns.size(0); i++) {
            try (var inner = MemoryScope.open()) {
                sum.add_(columns.select(0, i));
            }
        }
        return sum.unsqueeze(-1);
    }

    /**
     * Returns the relative error ‖y − exact‖ ÷ ‖exact‖ against fp64, with all rows as one vector; 1 if the output is
     * not finite.
     *
     * @param x the rows, fp64 [rows, width]
     */
    public double error(Tensor x) {
        requireFloating(x);
        try (var scope = MemoryScope.open()) {
            return error(x, apply(x));
        }
    }

    /**
     * Returns the relative error of PyTorch's {@code layer_norm} of x in the low-precision type; see {@link #error}.
     *
     * @param x the rows, fp64 [rows, width]
     */
    public static double nativeError(Tensor x, DType narrow) {
        requireFloating(x);
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            boolean useCudnn = false;
            return error(
                    x,
                    torch.layer_norm(
                            x.to(narrow.scalarType()),
                            new long[] {x.size(-1)},
                            new TensorOptional(),
                            new TensorOptional(),
                            Normalization.EPS,
                            useCudnn));
        }
    }

    private static void requireFloating(Tensor x) {
        Tensors.requireFloating("x", x);
        if (x.dim() == 0 || x.dim() > 2) {
            throw new IllegalArgumentException(
                    "x must have the shape [rows, width] or [width], not " + Arrays.toString(Tensors.shape(x)));
        }
    }

    private static double error(Tensor x, Tensor y) {
        var same = new ScalarTypeOptional();
        Tensor centred = x.sub(x.mean(LAST_DIMENSION, true, same));
        Tensor exact = centred.mul(
                centred.square().mean(LAST_DIMENSION, true, same).add(eps()).rsqrt());
        double error = exact.sub(y.to(ScalarType.Double)).norm().item_double()
                / exact.norm().item_double();
        return Double.isFinite(error) ? error : 1;
    }
}
