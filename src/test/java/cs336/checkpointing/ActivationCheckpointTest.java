package cs336.checkpointing;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.MemoryGrowth;
import cs336.torch.Autocast;
import cs336.torch.AutogradFunction;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.GradientHooks;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.FutureTask;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorBase;
import org.bytedeco.pytorch.VoidTensorHook;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

class ActivationCheckpointTest extends ScopedTest {
    private static final int WIDTH = 6;
    private static final Scalar FACTOR = MemoryScope.keep(new Scalar(0.7));

    private static Tensor random(Device device, DType dtype, long... shape) {
        return torch.randn(shape, device.options(dtype));
    }

    private static Tensor input() {
        return random(Device.cpu(), DType.FLOAT64, 4, WIDTH).set_requires_grad(true);
    }

    private static Tensor weight() {
        return random(Device.cpu(), DType.FLOAT64, WIDTH, WIDTH).set_requires_grad(true);
    }

    /** The values and gradients of a run, as bits. */
    private static List<double[]> gradients(Supplier<Tensor> loss, Tensor... leaves) {
        try (var scope = MemoryScope.open()) {
            Tensor value = loss.get();
            value.backward();
            var all = new ArrayList<double[]>();
            all.add(Tensors.toDoubles(value));
            for (Tensor leaf : leaves) {
                all.add(leaf.grad().defined() ? Tensors.toDoubles(leaf.grad()) : null);
                leaf.mutable_grad().reset();
            }
            return all;
        }
    }

    private static void assertSame(List<double[]> expected, List<double[]> actual) {
        for (int i = 0; i < expected.size(); i++) {
            assertArrayEquals(expected.get(i), actual.get(i), "value " + i);
        }
    }

    private static void assertClose(List<double[]> expected, List<double[]> actual) {
        for (int i = 0; i < expected.size(); i++) {
            double largest = Arrays.stream(expected.get(i)).map(Math::abs).max().orElseThrow();
            assertArrayEquals(expected.get(i), actual.get(i), 1e-13 * largest, "value " + i);
        }
    }

    /** Compares a loss of a function with that of the checkpointed function, bit for bit. */
    private static void assertSameGradients(UnaryOperator<Tensor> function, Tensor x, Tensor... others) {
        Tensor[] leaves = Arrays.copyOf(others, others.length + 1);
        leaves[others.length] = x;
        assertSame(
                gradients(() -> function.apply(x).square().sum(), leaves),
                gradients(() -> ActivationCheckpoint.apply(function, x).square().sum(), leaves));
    }

    @Test
    void gradientsOfInputAndParametersAreThoseOfThePlainFunction() {
        Tensor w = weight();
        Tensor unused = weight();
        assertSameGradients(x -> torch.tanh(x.matmul(w)).mul(x).matmul(w.t()), input(), w, unused);
    }

    @Test
    void theInputNeedsNoGradient() {
        Tensor w = weight();
        Tensor x = random(Device.cpu(), DType.FLOAT64, 4, WIDTH);
        assertSame(
                gradients(() -> torch.tanh(x.matmul(w)).sum(), w),
                gradients(
                        () -> ActivationCheckpoint.apply(t -> torch.tanh(t.matmul(w)), x)
                                .sum(),
                        w));
    }

    @Test
    void severalInputsAndOutputsOfWhichSomeHaveNoGradient() {
        Tensor a = input();
        Tensor b = input();
        Tensor constant = random(Device.cpu(), DType.FLOAT64, 4, WIDTH);
        Tensor rows = Tensors.of(new long[] {2, 0, 2, 1}, 4);
        Tensor w = weight();
        Function<Tensor[], Tensor[]> function = in -> new Tensor[] {
            in[0].matmul(w).index_select(0, in[3]),
            in[2].mul(FACTOR), // requires no gradient
            torch.tanh(in[1]).mul(in[2]),
            in[3].add(new Scalar(1L)), // integers
            in[0].mul(in[1])
        };
        Function<Tensor[], Tensor> loss =
                out -> out[0].square().sum().add(out[2].mul(out[1]).sum());
        assertSame(
                gradients(() -> loss.apply(function.apply(new Tensor[] {a, b, constant, rows})), a, b, w),
                gradients(() -> loss.apply(ActivationCheckpoint.applyAll(function, a, b, constant, rows)), a, b, w));

        Tensor[] outputs = ActivationCheckpoint.applyAll(function, a, b, constant, rows);
        assertFalse(outputs[1].requires_grad());
        assertArrayEquals(new double[] {3, 1, 3, 2}, Tensors.toDoubles(outputs[3]));
        assertTrue(outputs[4].requires_grad(), "an output that the loss does not use");
    }

    @Test
    void aGradientDoesNotShareMemoryWithThatOfTheOutput() {
        Tensor x = input();
        Tensor bias = input();
        List<UnaryOperator<Tensor>> functions = List.of(
                in -> in.add(FACTOR), in -> in.add(bias), in -> in.detach().add(bias), in -> in);
        for (UnaryOperator<Tensor> function : functions) {
            Tensor gradient = random(Device.cpu(), DType.FLOAT64, 4, WIDTH);
            double[] given = Tensors.toDoubles(gradient);
            for (int pass = 0; pass < 3; pass++) { // the second and third add to the gradient in place
                Backward.of(ActivationCheckpoint.apply(function, x))
                        .with(gradient)
                        .run();
            }
            assertArrayEquals(given, Tensors.toDoubles(gradient));
            for (Tensor leaf : List.of(x, bias)) {
                if (leaf.grad().defined()) {
                    double[] expected = Arrays.stream(given).map(g -> g + g + g).toArray();
                    assertArrayEquals(expected, Tensors.toDoubles(leaf.grad()));
                }
                leaf.mutable_grad().reset();
            }
        }
    }

    @Test
    void anOutputMayBeAnInputOrACapturedTensor() {
        Tensor x = input();
        Tensor w = weight();
        Function<Tensor[], Tensor[]> function = in -> new Tensor[] {in[0], w, in[0]};
        Function<Tensor[], Tensor> loss =
                out -> out[0].matmul(out[1]).mul(out[2]).sum();
        assertSame(
                gradients(() -> loss.apply(function.apply(new Tensor[] {x})), x, w),
                gradients(() -> loss.apply(ActivationCheckpoint.applyAll(function, x)), x, w));
    }

    @Test
    void aFunctionMayCaptureAnIntermediateResultOfTheGraph() {
        Tensor w = weight();
        Tensor v = weight();
        Tensor x = input();
        Function<UnaryOperator<UnaryOperator<Tensor>>, Tensor> loss = wrap -> {
            Tensor captured = torch.tanh(v.matmul(w)); // also used outside
            return wrap.apply(t -> t.matmul(captured).mul(captured.sum()))
                    .apply(x)
                    .sum()
                    .add(captured.sum());
        };
        List<double[]> plain = gradients(() -> loss.apply(f -> f), x, v, w);
        List<double[]> checkpointed = gradients(() -> loss.apply(f -> t -> ActivationCheckpoint.apply(f, t)), x, v, w);
        assertClose(plain, checkpointed); // the gradients of its uses are accumulated in another order
    }

    @Test
    void nestedFunctions() {
        Tensor u = weight();
        Tensor v = weight();
        Tensor w = weight();
        UnaryOperator<Tensor> first = x -> torch.tanh(x.matmul(u));
        UnaryOperator<Tensor> second = x -> torch.sigmoid(x.matmul(v).mul(x));
        UnaryOperator<Tensor> plain =
                x -> second.apply(second.apply(first.apply(x)).matmul(w));
        UnaryOperator<Tensor> nested = x -> {
            Tensor h = ActivationCheckpoint.apply(first, x);
            Tensor g = ActivationCheckpoint.apply(
                    t -> ActivationCheckpoint.apply(second, t).matmul(w), h);
            return ActivationCheckpoint.apply(second, g);
        };
        Tensor x = input();
        assertSame(
                gradients(() -> plain.apply(x).sum(), x, u, v, w),
                gradients(() -> ActivationCheckpoint.apply(nested, x).sum(), x, u, v, w));
    }

    /**
     * The backward pass runs on another thread, as that of a GPU always does. Threads number their nodes separately.
     */
    @Test
    void theBackwardPassOfNestedFunctionsMayRunOnAnotherThread() throws Exception {
        Tensor w = torch.randn(3).set_requires_grad(true);
        Tensor x = torch.randn(3).set_requires_grad(true);
        Tensor captured = w.mul(w);
        UnaryOperator<Tensor> inner = a -> a.mul(captured);
        UnaryOperator<Tensor> outer =
                a -> ActivationCheckpoint.apply(inner, a.sin()).cos();
        Tensor loss = ActivationCheckpoint.apply(outer, x).sum();
        onAnotherThread(() -> Backward.of(loss).run());
        Tensor plain = x.sin().mul(w.mul(w)).cos().sum();
        assertArrayEquals(Tensors.toDoubles(Backward.of(plain).gradients(w)[0]), Tensors.toDoubles(w.grad()), 1e-6);
    }

    @Test
    void aCapturedTensorMayHaveAGraphOfAnotherThread() throws Exception {
        Tensor w = torch.randn(3).set_requires_grad(true);
        Tensor x = torch.randn(3).set_requires_grad(true);
        for (int i = 0; i < 50; i++) {
            x.mul(x); // so that the numbers of this thread's nodes are higher
        }
        Tensor captured = w.mul(w);
        onAnotherThread(() -> Backward.of(ActivationCheckpoint.apply(a -> a.mul(captured), x)
                        .sum()
                        .add(captured.sum()))
                .run());
        Tensor square = w.mul(w);
        Tensor plain = x.mul(square).sum().add(square.sum());
        assertArrayEquals(Tensors.toDoubles(Backward.of(plain).gradients(w)[0]), Tensors.toDoubles(w.grad()), 1e-6);
    }

    private static void onAnotherThread(Runnable work) throws Exception {
        var task = new FutureTask<>(work, null);
        new Thread(task).start();
        task.get();
    }

    @Test
    void deeplyNestedFunctions() {
        Tensor w = weight();
        UnaryOperator<Tensor> layer = x -> torch.linear(torch.tanh(x), w);
        UnaryOperator<Tensor> nested = layer;
        for (int depth = 0; depth < 6; depth++) {
            UnaryOperator<Tensor> inner = nested;
            nested = x -> ActivationCheckpoint.apply(inner, x);
        }
        assertSameGradients(nested, input(), w);
        Tensor x = input();
        UnaryOperator<Tensor> checkpointed = nested;
        assertClose(secondDerivatives(layer, x, w), secondDerivatives(checkpointed, x, w));
    }

    @Test
    void aParameterOfSeveralFunctionsAccumulatesAndItsHooksRunOnce() {
        Tensor w = weight();
        Tensor v = weight();
        Tensor x = input();
        Function<UnaryOperator<UnaryOperator<Tensor>>, Tensor> loss = wrap -> {
            Tensor h = wrap.apply(t -> torch.tanh(t.matmul(w))).apply(x);
            h = wrap.apply(t -> torch.tanh(t.matmul(v).matmul(w))).apply(h);
            return h.matmul(w).sum();
        };
        List<double[]> expected = gradients(() -> loss.apply(f -> f), w, v);
        var complete = new ArrayList<Integer>();
        var seen = new ArrayList<double[]>();
        var raw = new ArrayList<double[]>();
        var hook = MemoryScope.keep(new VoidTensorHook() {
            @Override
            public void call(TensorBase gradient) {
                raw.add(Tensors.toDoubles(new Tensor(gradient)));
            }
        });
        int handle = w.register_hook(hook);
        try (var hooks = GradientHooks.of(List.of(w, v), i -> {}, i -> {
            complete.add(i);
            seen.add(Tensors.toDoubles((i == 0 ? w : v).grad()));
        })) {
            for (int pass = 0; pass < 2; pass++) {
                complete.clear();
                seen.clear();
                raw.clear();
                try (var inner = MemoryScope.open()) {
                    loss.apply(f -> t -> ActivationCheckpoint.apply(f, t)).backward();
                }
                hooks.flush();
                assertEquals(List.of(1, 0), complete);
                assertArrayEquals(expected.get(2), seen.get(0));
                assertArrayEquals(expected.get(1), seen.get(1));
                assertEquals(1, raw.size());
                assertArrayEquals(expected.get(1), raw.get(0));
                w.mutable_grad().reset();
                v.mutable_grad().reset();
            }
        }
        w.remove_hook(handle);
        hook.close();
    }

    @Test
    void randomNumbersAreTheSameInTheRecomputation() {
        requireSameRandomNumbers(Device.cpu());
    }

    @Test
    @Tag("gpu")
    void randomNumbersAreTheSameInTheRecomputationOnAGpu() {
        requireSameRandomNumbers(Device.cuda(0));
    }

    private static void requireSameRandomNumbers(Device device) {
        Tensor w = random(device, DType.FLOAT64, WIDTH, WIDTH).set_requires_grad(true);
        Tensor x = random(device, DType.FLOAT64, 40, WIDTH).set_requires_grad(true);
        UnaryOperator<Tensor> layer =
                t -> torch.dropout(torch.tanh(torch.dropout(t, 0.5, true).matmul(w)), 0.3, true);
        Function<UnaryOperator<Tensor>, Supplier<Tensor>> loss = f -> () -> {
            Torch.seed(7);
            return f.apply(f.apply(x)).sum();
        };
        UnaryOperator<Tensor> nested = t -> ActivationCheckpoint.apply(layer, t).mul(torch.rand_like(t));
        UnaryOperator<Tensor> plain = t -> layer.apply(t).mul(torch.rand_like(t));
        List<double[]> expected = gradients(loss.apply(plain), x, w);
        double next = torch.rand_like(x).sum().item_double();
        assertSame(expected, gradients(loss.apply(t -> ActivationCheckpoint.apply(nested, t)), x, w));
        assertEquals(next, torch.rand_like(x).sum().item_double(), "the backward pass draws no random numbers");
    }

    @Test
    void theRecomputationRunsUnderTheAutocastOfTheForwardPass() {
        requireSameUnderAutocast(Device.cpu(), DType.BFLOAT16);
    }

    @Test
    @Tag("gpu")
    void theRecomputationRunsUnderTheAutocastOfTheForwardPassOnAGpu() {
        requireSameUnderAutocast(Device.cuda(0), DType.BFLOAT16);
        requireSameUnderAutocast(Device.cuda(0), DType.FLOAT16);
    }

    @Test
    void aBackwardPassUnderAutocastDoesNotUseTheCastOfALaterFunction() {
        Tensor w = random(Device.cpu(), DType.FLOAT32, 32, 32).set_requires_grad(true);
        Tensor x = random(Device.cpu(), DType.FLOAT32, 8, 32).set_requires_grad(true);
        UnaryOperator<Tensor> layer = t -> torch.tanh(t.matmul(w));
        List<double[]> found = new ArrayList<>();
        for (boolean isCheckpointed : new boolean[] {false, true}) {
            try (var autocast = Autocast.of(Device.cpu(), DType.BFLOAT16)) {
                Tensor h = isCheckpointed ? ActivationCheckpoint.apply(layer, x) : layer.apply(x);
                Tensor loss = layer.apply(h).to(ScalarType.Float).square().sum(); // autocast keeps the cast of w
                Tensor[] gradients = Backward.of(loss).gradients(x, w);
                found.add(Tensors.toDoubles(gradients[0]));
                found.add(Tensors.toDoubles(gradients[1]));
            }
        }
        assertArrayEquals(found.get(0), found.get(2));
        double scale = Arrays.stream(found.get(1)).map(Math::abs).max().orElseThrow();
        assertArrayEquals(found.get(1), found.get(3), 0.01 * scale); // a sum of two casts' gradients in fp32
    }

    private static void requireSameUnderAutocast(Device device, DType dtype) {
        Tensor w = random(device, DType.FLOAT32, 32, 32).set_requires_grad(true);
        Tensor x = random(device, DType.FLOAT32, 8, 32).set_requires_grad(true);
        var dtypes = new ArrayList<DType>();
        UnaryOperator<Tensor> layer = t -> {
            Tensor y = t.matmul(w);
            dtypes.add(DType.of(y));
            return torch.tanh(y);
        };
        // w's cast is cached by the plain uses before and after.
        Function<UnaryOperator<Tensor>, Supplier<Tensor>> loss = f -> () -> {
            try (var autocast = Autocast.of(device, dtype)) {
                Tensor h = f.apply(f.apply(layer.apply(x)));
                return layer.apply(h).to(ScalarType.Float).square().sum();
            }
        };
        List<double[]> plain = gradients(loss.apply(layer), x, w);
        List<double[]> checkpointed = gradients(loss.apply(t -> ActivationCheckpoint.apply(layer, t)), x, w);
        assertArrayEquals(plain.get(0), checkpointed.get(0));
        assertArrayEquals(plain.get(1), checkpointed.get(1));
        // The casts' gradients are accumulated in fp32 per function instead of in the narrow type for all uses.
        double scale = Arrays.stream(plain.get(2)).map(Math::abs).max().orElseThrow();
        assertArrayEquals(plain.get(2), checkpointed.get(2), 0.01 * scale);
        assertEquals(List.of(dtype), dtypes.stream().distinct().toList());
        assertEquals(DType.FLOAT32, Autocast.dtype(device));
    }

    @Test
    void secondDerivatives() {
        Tensor w = weight();
        Tensor x = input();
        UnaryOperator<Tensor> function =
                t -> torch.tanh(t.matmul(w)).mul(t.matmul(w.t()).square());
        assertClose(
                secondDerivatives(function, x, w),
                secondDerivatives(t -> ActivationCheckpoint.apply(function, t), x, w));
    }

    /** The gradients of a penalty on the first derivatives. */
    private static List<double[]> secondDerivatives(UnaryOperator<Tensor> function, Tensor x, Tensor w) {
        Tensor y = function.apply(x).square().sum();
        Tensor[] first = Backward.of(y).createGraph().gradients(x, w);
        Tensor penalty = first[0].square().sum().add(first[1].square().sum());
        return Arrays.stream(Backward.of(penalty).gradients(x, w))
                .map(Tensors::toDoubles)
                .toList();
    }

    @Test
    void aRetainedGraphRecomputesEachTime() {
        Tensor w = weight();
        Tensor x = input();
        int[] runs = {0};
        Tensor y = ActivationCheckpoint.apply(
                        t -> {
                            runs[0]++;
                            return torch.tanh(t.matmul(w));
                        },
                        x)
                .sum();
        double[] once = Tensors.toDoubles(Backward.of(y).retainGraph().gradients(w)[0]);
        double[] twice = Tensors.toDoubles(Backward.of(y).gradients(w)[0]);
        assertArrayEquals(once, twice);
        assertEquals(3, runs[0]);
        assertNull(
                Backward.of(ActivationCheckpoint.apply(t -> t.mul(t), x).sum()).gradients(w)[0]);
    }

    @Test
    void withoutGradModeOrGradientsItIsThePlainFunction() {
        Tensor x = input();
        int[] runs = {0};
        UnaryOperator<Tensor> function = t -> {
            runs[0]++;
            return torch.tanh(t);
        };
        try (var noGrad = NoGrad.open()) {
            assertFalse(ActivationCheckpoint.apply(function, x).requires_grad());
        }
        Tensor constant = x.detach();
        assertFalse(ActivationCheckpoint.apply(function, constant).requires_grad());
        assertEquals(2, runs[0]);
    }

    @Test
    void functionsWithABackwardPassInJavaAreRecomputed() {
        final class Doubled extends AutogradFunction {
            @Override
            protected Tensor[] forward(Context ctx, Tensor... inputs) {
                ctx.save(inputs);
                return new Tensor[] {inputs[0].square()};
            }

            @Override
            protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
                return new Tensor[] {gradOutputs[0].mul(ctx.saved(0)).mul(new Scalar(2.0))};
            }
        }
        Tensor w = weight();
        assertSameGradients(x -> new Doubled().apply(x.matmul(w))[0].matmul(w), input(), w);
    }

    @Test
    void aFunctionThatDoesNotComputeTheSameAgainIsReported() {
        Tensor w = weight();
        Tensor v = weight();
        Tensor x = input();
        int[] runs = {0};
        assertFails(
                "the forward pass did not use",
                Backward.of(ActivationCheckpoint.apply(t -> t.matmul(runs[0]++ == 0 ? w : v), x)
                        .sum()));
        runs[0] = 0;
        Tensor other = torch.tanh(w); // a node that leads to a tensor of the forward pass
        assertFails(
                "the forward pass did not use",
                Backward.of(ActivationCheckpoint.apply(t -> t.matmul(runs[0]++ == 0 ? w : other), x)
                        .sum()));
        runs[0] = 0;
        assertFails(
                "did not use a tensor that requires a gradient",
                Backward.of(ActivationCheckpoint.apply(t -> runs[0]++ == 0 ? t.matmul(w) : t.sin(), x)
                        .sum()));
        runs[0] = 0;
        assertFails(
                "has another shape",
                Backward.of(ActivationCheckpoint.apply(t -> runs[0]++ == 0 ? t.matmul(w) : t.sum(), x)
                        .sum()));
        runs[0] = 0;
        assertFails(
                "returned 2 tensors, the forward pass 1",
                Backward.of(
                        ActivationCheckpoint.applyAll(t -> runs[0]++ == 0 ? t : new Tensor[] {t[0], w}, x)[0].sum()));
        runs[0] = 0;
        assertFails(
                "out of luck",
                Backward.of(ActivationCheckpoint.apply(
                                t -> {
                                    if (runs[0]++ > 0) {
                                        throw new IllegalStateException("out of luck");
                                    }
                                    return t.matmul(w);
                                },
                                x)
                        .sum()));
    }

    private static void assertFails(String message, Backward backward) {
        String actual = assertThrows(IllegalStateException.class, backward::run).getMessage();
        assertTrue(actual.contains(message), actual);
        assertEquals(DType.FLOAT32, Autocast.dtype(Device.cpu()));
    }

    @Test
    void unusableInputsAndOutputsAreReported() {
        Tensor x = input();
        Tensor constant = x.detach();
        Tensor closed = input();
        closed.close();
        assertMessage(IllegalArgumentException.class, "input 0", () -> ActivationCheckpoint.apply(t -> t, null));
        assertMessage(IllegalArgumentException.class, "input 0", () -> ActivationCheckpoint.apply(t -> t, closed));
        assertMessage(
                NullPointerException.class, "function must not be null", () -> ActivationCheckpoint.apply(null, x));
        assertMessage(
                NullPointerException.class, "function must not be null", () -> ActivationCheckpoint.applyAll(null, x));
        assertMessage(IllegalStateException.class, "output 0", () -> ActivationCheckpoint.apply(t -> null, x));
        assertMessage(
                IllegalStateException.class,
                "at least one",
                () -> ActivationCheckpoint.applyAll(t -> new Tensor[0], x));
        assertMessage(
                IllegalStateException.class,
                "changed its input 0 in place",
                () -> ActivationCheckpoint.apply(t -> t.mul_(FACTOR), constant));
    }

    private static void assertMessage(Class<? extends Exception> type, String message, Supplier<Object> action) {
        String actual = assertThrows(type, action::get).getMessage();
        assertTrue(actual.contains(message), actual);
    }

    /** Four functions that save four tensors each, so large that malloc returns them to the operating system. */
    private abstract static class DeepChain implements MemoryGrowth.Work {
        static final long BYTES = 33 << 20;
        static final int DEPTH = 4;

        private final Tensor x = MemoryScope.keep(
                random(Device.cpu(), DType.FLOAT32, 1024, BYTES / 4096).set_requires_grad(true));

        abstract Tensor layer(Tensor t);

        static Tensor saved(Tensor t) {
            return torch.tanh(torch.sigmoid(torch.tanh(torch.sigmoid(t))));
        }

        @Override
        public void step() {
            try (var scope = MemoryScope.open()) {
                Tensor h = x;
                for (int i = 0; i < DEPTH; i++) {
                    Tensor next = layer(h);
                    if (h != x) {
                        h.close();
                    }
                    h = next;
                }
                Tensor loss = h.sum();
                h.close();
                loss.backward();
            }
            x.mutable_grad().reset();
        }
    }

    /** The plain functions. */
    static final class PlainChain extends DeepChain {
        @Override
        Tensor layer(Tensor t) {
            try (var scope = MemoryScope.open()) {
                return scope.escape(saved(t));
            }
        }
    }

    /** The functions, each of them checkpointed. */
    static final class CheckpointedChain extends DeepChain {
        @Override
        Tensor layer(Tensor t) {
            return ActivationCheckpoint.apply(DeepChain::saved, t);
        }
    }

    @Test
    void theActivationsOfAFunctionAreFreedBeforeTheNextIsRecomputed() throws Exception {
        long plain = MemoryGrowth.peakOfStep(PlainChain.class);
        long checkpointed = MemoryGrowth.peakOfStep(CheckpointedChain.class);
        assertTrue(plain >= DeepChain.DEPTH * 4 * DeepChain.BYTES, plain + " bytes");
        // One input for each function; four saved tensors and three temporary ones in the function being recomputed.
        assertTrue(checkpointed <= (DeepChain.DEPTH + 4 + 3) * DeepChain.BYTES, checkpointed + " bytes");
    }

    /** A step with nested functions, dropout, autocast and a captured weight. */
    static final class NestedStep implements MemoryGrowth.Work {
        private final Tensor w =
                MemoryScope.keep(random(Device.cpu(), DType.FLOAT32, 16, 16).set_requires_grad(true));
        private final Tensor x = MemoryScope.keep(random(Device.cpu(), DType.FLOAT32, 16, 16));

        private Tensor layer(Tensor t) {
            return torch.dropout(torch.tanh(t.matmul(w)), 0.5, true);
        }

        @Override
        public void step() {
            try (var scope = MemoryScope.open()) {
                Tensor y;
                try (var autocast = Autocast.of(Device.cpu(), DType.BFLOAT16)) {
                    y = ActivationCheckpoint.apply(t -> layer(ActivationCheckpoint.apply(this::layer, t)), x);
                }
                y.sum().backward();
            }
            w.mutable_grad().reset();
        }
    }

    @Test
    void nativeMemoryIsConstantOverManySteps() throws Exception {
        MemoryGrowth.assertFlat(NestedStep.class, 100, 64);
    }
}
