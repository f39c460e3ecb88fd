package cs336.torch;

import java.util.Arrays;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Measures the overhead of an {@link AutogradFunction} over a built-in operation with the same arithmetic: forward and
 * backward pass of the square of 16 numbers, in µs per call. The argument is a device: {@code cpu} or {@code cuda}.
 */
final class AutogradFunctionCost {
    private static final int CHAIN = 20;
    private static final int CHAINS = 400;
    private static final int ROUNDS = 12;

    private AutogradFunctionCost() {}

    private static final class HandWrittenSquare extends AutogradFunction {
        @Override
        protected Tensor[] forward(Context ctx, Tensor... inputs) {
            ctx.save(inputs[0]);
            return new Tensor[] {inputs[0].square()};
        }

        @Override
        protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
            // the two operations of PyTorch's backward pass of square
            return new Tensor[] {ctx.saved(0).add(ctx.saved(0)).mul(gradOutputs[0])};
        }
    }

    private interface SquareCall {
        Tensor of(Tensor x);
    }

    public static void main(String[] args) {
        Torch.setThreads(1);
        Device device = Device.parse(args.length == 0 ? "cpu" : args[0]);
        AutogradFunction square = new HandWrittenSquare();
        double[] functions = new double[ROUNDS];
        double[] builtIns = new double[ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
            builtIns[round] = microseconds(device, Tensor::square);
            functions[round] = microseconds(device, x -> square.apply(x)[0]);
        }
        // The first third of the rounds is JIT warm-up.
        double builtIn = median(Arrays.copyOfRange(builtIns, ROUNDS / 3, ROUNDS));
        double function = median(Arrays.copyOfRange(functions, ROUNDS / 3, ROUNDS));
        System.out.printf(
                "%s: built-in %.1f µs, function %.1f µs, difference %.1f µs per forward and backward call%n",
                device.productName(), builtIn, function, function - builtIn);
    }

    private static double microseconds(Device device, SquareCall square) {
        try (var scope = MemoryScope.open()) {
            Tensor x =
                    torch.ones(new long[] {16}, device.options(DType.FLOAT32)).set_requires_grad(true);
            device.synchronize();
            long start = System.nanoTime();
            for (int i = 0; i < CHAINS; i++) {
                try (var inner = MemoryScope.open()) {
                    Tensor y = x;
                    for (int k = 0; k < CHAIN; k++) {
                        y = square.of(y);
                    }
                    y.sum().backward();
                    x.mutable_grad().reset();
                }
            }
            device.synchronize();
            return (System.nanoTime() - start) / 1e3 / CHAIN / CHAINS;
        }
    }

    private static double median(double[] values) {
        Arrays.sort(values);
        return values[values.length / 2];
    }
}
