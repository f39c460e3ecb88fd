package cs336.compile.fuse;

import cs336.compile.trace.TensorFunction;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.ScalarTypeOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A random function of three tensors, made of pointwise operators, reductions, broadcasts, views, casts and writes in
 * place. Its values stay near 1, so that rounding errors do not grow.
 *
 * @param seed determines the function and the shapes of its inputs
 */
record RandomFunction(long seed) implements TensorFunction {
    private static final int OPERATORS = 12;
    private static final long[] SIZES = {1, 2, 3, 4, 8, 16, 33};

    /** Returns new inputs with random elements. */
    Tensor[] inputs(Device device) {
        var random = new Random(seed);
        long rows = SIZES[random.nextInt(SIZES.length)];
        long columns = SIZES[random.nextInt(SIZES.length)];
        long batch = 1 + random.nextInt(3);
        Tensor a = torch.randn(new long[] {batch, rows, columns}, device.options(DType.FLOAT32));
        Tensor b = torch.randn(new long[] {columns}, device.options(DType.FLOAT32));
        Tensor c = torch.randn(new long[] {columns, rows, batch}, device.options(DType.FLOAT32))
                .permute(2, 1, 0);
        return new Tensor[] {a, b, c};
    }

    @Override
    public Tensor[] apply(Tensor... inputs) {
        var random = new Random(seed);
        try (var scope = MemoryScope.open()) {
            List<Tensor> values = new ArrayList<>(List.of(inputs));
            for (int i = 0; i < OPERATORS; i++) {
                values.add(next(random, values));
            }
            Tensor last = values.get(values.size() - 1);
            Tensor other = values.get(3 + random.nextInt(OPERATORS));
            return new Tensor[] {scope.escape(last.clone()), scope.escape(other.clone())};
        }
    }

    private static Tensor next(Random random, List<Tensor> values) {
        Tensor x = pick(random, values);
        long[] last = {-1};
        return switch (random.nextInt(19)) {
            case 0 -> x.add(like(random, values, x)).mul(new Scalar(0.5));
            case 1 -> x.sub(like(random, values, x));
            case 2 -> x.mul(like(random, values, x)).tanh();
            case 3 -> x.div(like(random, values, x).abs().add(new Scalar(1.0)));
            case 4 -> torch.silu(x);
            case 5 -> torch.gelu(x);
            case 6 -> x.dim() == 0 ? x.neg() : torch.softmax(x, -1);
            case 7 ->
                x.dim() == 0
                        ? x.exp().tanh()
                        : x.mean(last, true, new ScalarTypeOptional()).expand_as(x);
            case 8 ->
                x.dim() < 2
                        ? x
                        : x.sum(new long[] {0}, true, new ScalarTypeOptional()).tanh();
            case 9 -> x.dim() < 2 ? x : x.transpose(-1, -2).contiguous();
            case 10 -> x.dim() < 2 ? x : x.transpose(-1, -2);
            case 11 -> x.dim() == 0 || x.size(-1) < 2 ? x : x.narrow(-1, 1, x.size(-1) - 1);
            case 12 -> x.to(DType.BFLOAT16.scalarType()).to(DType.FLOAT32.scalarType());
            case 13 -> torch.where(x.gt(new Scalar(0.0)), x, x.mul(new Scalar(0.1)));
            case 14 -> x.clone().add_(new Scalar(0.25)).mul_(new Scalar(0.5));
            case 15 -> x.square().add(new Scalar(1.0)).rsqrt();
            case 16 -> x.reshape(-1);
            case 17 -> x.dim() == 0 ? x : torch.log_softmax(x, -1).mul(new Scalar(0.3));
            default -> {
                Tensor y = x.clone();
                if (y.dim() > 0 && y.size(-1) > 1) {
                    y.narrow(-1, 0, 1).mul_(new Scalar(-1.0)); // writes a part of the tensor
                }
                yield y;
            }
        };
    }

    private static Tensor pick(Random random, List<Tensor> values) {
        return values.get(random.nextInt(values.size()));
    }

    /** Returns a value that broadcasts with x, or x itself. */
    private static Tensor like(Random random, List<Tensor> values, Tensor x) {
        Tensor y = pick(random, values);
        for (int i = 1; i <= Math.min(x.dim(), y.dim()); i++) {
            if (x.size(-i) != y.size(-i) && x.size(-i) != 1 && y.size(-i) != 1) {
                return x;
            }
        }
        return y;
    }
}
