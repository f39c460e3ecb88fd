package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.MemoryGrowth;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.bytedeco.pytorch.AutogradState;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;
import org.bytedeco.pytorch.global.torch_cuda;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class AutogradFunctionTest {
    private static final long MIB = 1 << 20;

    private MemoryScope scope;
    private Set<Long> aliveBefore; // of other tests, whose tensors await the garbage collector

    @BeforeEach
    void open() {
        aliveBefore = DifferentiableGraph.alive();
        scope = MemoryScope.open();
    }

    /** After each test the graph has released all saved tensors. */
    @AfterEach
    void savedTensorsAreFreedWithTheGraph() {
        scope.close();
        assertEquals(0, alive());
    }

    /** Returns the number of graph nodes that the test has created and the autograd graph still holds. */
    private long alive() {
        return DifferentiableGraph.alive().stream()
                .filter(number -> !aliveBefore.contains(number))
                .count();
    }

    /** A pass of a function. */
    private interface FunctionPass {
        Tensor[] run(AutogradFunction.Context ctx, Tensor... tensors);
    }

    private static AutogradFunction function(FunctionPass forward, FunctionPass backward) {
        return new AutogradFunction() {
            @Override
            protected Tensor[] forward(Context ctx, Tensor... inputs) {
                return forward.run(ctx, inputs);
            }

            @Override
            protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
                return backward.run(ctx, gradOutputs);
            }
        };
    }

    private static Tensor[] tensors(Tensor... tensors) {
        return tensors;
    }

    /** y[i] = Σ_j w[j] x[i,j], the example of {@link AutogradFunction}. */
    static final class WeightedSumFunction extends AutogradFunction {
        @Override
        protected Tensor[] forward(Context ctx, Tensor... inputs) {
            ctx.save(inputs);
            return new Tensor[] {inputs[0].mul(inputs[1]).sum(-1)};
        }

        @Override
        protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
            Tensor x = ctx.saved(0);
            Tensor weight = ctx.saved(1);
            Tensor dy = gradOutputs[0].unsqueeze(-1);
            Tensor dx = ctx.needsInputGrad(0) ? dy.mul(weight) : null;
            Tensor dWeight = ctx.needsInputGrad(1) ? dy.mul(x).sum(0) : null;
            return new Tensor[] {dx, dWeight};
        }
    }

    /** x², saves its input. */
    private static final AutogradFunction SQUARE = function(
            (ctx, inputs) -> {
                ctx.save(inputs[0]);
                return tensors(inputs[0].mul(inputs[0]));
            },
            (ctx, gradOutputs) -> tensors(gradOutputs[0].mul(ctx.saved(0)).mul(new Scalar(2.0))));

    /** eˣ, saves its output. */
    private static final AutogradFunction EXP = function(
            (ctx, inputs) -> {
                Tensor y = inputs[0].exp();
                ctx.save(y);
                return tensors(y);
            },
            (ctx, gradOutputs) -> tensors(gradOutputs[0].mul(ctx.saved(0))));

    /** x³, saves an intermediate tensor. */
    private static final AutogradFunction CUBE = function(
            (ctx, inputs) -> {
                Tensor slope = inputs[0].square().mul(new Scalar(3.0));
                ctx.save(slope);
                return tensors(inputs[0].pow(new Scalar(3.0)));
            },
            (ctx, gradOutputs) -> tensors(gradOutputs[0].mul(ctx.saved(0))));

    /** (a, b) → (a b, a + b) */
    private static final AutogradFunction PRODUCT_AND_SUM = function(
            (ctx, inputs) -> {
                ctx.save(inputs);
                return tensors(inputs[0].mul(inputs[1]), inputs[0].add(inputs[1]));
            },
            (ctx, gradOutputs) -> {
                Tensor dProduct = gradOutputs[0];
                Tensor dSum = gradOutputs[1];
                if (dProduct == null) {
                    return tensors(dSum, dSum);
                }
                Tensor da = dProduct.mul(ctx.saved(1));
                Tensor db = dProduct.mul(ctx.saved(0));
                return dSum == null ? tensors(da, db) : tensors(da.add(dSum), db.add(dSum));
            });

    private static AutogradFunction throwing(Throwable thrown) {
        return function((ctx, inputs) -> tensors(inputs[0].clone()), (ctx, gradOutputs) -> {
            throw AutogradFunctionTest.<RuntimeException>unchecked(thrown);
        });
    }

    @SuppressWarnings("unchecked")
    private static <T extends Throwable> T unchecked(Throwable thrown) throws T {
        throw (T) thrown;
    }

    private static Tensor leaf(double... values) {
        return Tensors.of(values, values.length).set_requires_grad(true);
    }

    private static Tensor random(long... shape) {
        return torch.randn(shape, Device.cpu().options(DType.FLOAT64));
    }

    private static void assertValues(Tensor tensor, double... expected) {
        assertArrayEquals(expected, Tensors.toDoubles(tensor), 1e-12);
    }

    // Results

    @Test
    void gradientIsWhatBackwardReturns() {
        Tensor x = leaf(1, 2, -3);
        Tensor y = SQUARE.apply(x)[0];
        assertValues(y, 1, 4, 9);
        assertTrue(y.requires_grad());
        assertFalse(y.is_leaf());
        y.sum().backward();
        assertValues(x.grad(), 2, 4, -6);
    }

    @Test
    void exampleOfTheDocumentationIsCorrect() {
        GradCheck.check(new WeightedSumFunction(), random(3, 4), random(4));
        GradCheck.checkDouble(new WeightedSumFunction(), random(3, 4), random(4));
    }

    @Test
    void chainWithBuiltInOperationsAgreesWithAutograd() {
        Tensor values = random(5, 4);
        Tensor x = values.clone().set_requires_grad(true);
        Tensor same = values.clone().set_requires_grad(true);
        Tensor h = x;
        Tensor g = same;
        var tenth = new Scalar(0.1);
        for (int i = 0; i < 4; i++) {
            h = h.add(SQUARE.apply(h)[0].mul(tenth)).add(EXP.apply(h.tanh())[0]);
            g = g.add(g.mul(g).mul(tenth)).add(g.tanh().exp());
        }
        h.sin().sum().backward();
        g.sin().sum().backward();
        assertArrayEquals(Tensors.toDoubles(same.grad()), Tensors.toDoubles(x.grad()), 1e-9);
    }

    @Test
    void eachOutputHasItsGradientAndUnusedOnesHaveNull() {
        GradCheck.check(PRODUCT_AND_SUM, random(3), random(3));
        GradCheck.checkDouble(PRODUCT_AND_SUM, random(3), random(3));
    }

    @Test
    void sameTensorMayBeTwoInputs() {
        Tensor x = leaf(3);
        Tensor[] y = PRODUCT_AND_SUM.apply(x, x);
        y[0].add(y[1]).sum().backward();
        assertValues(x.grad(), 8);
    }

    @Test
    void nullMeansNoGradient() {
        Tensor a = leaf(1);
        Tensor b = leaf(2);
        AutogradFunction first =
                function((ctx, inputs) -> tensors(inputs[0].clone()), (ctx, dy) -> tensors(dy[0], null));
        first.apply(a, b)[0].sum().backward();
        assertValues(a.grad(), 1);
        assertFalse(b.grad().defined());
    }

    @Test
    void onlyInputsThatRequireGradientsNeedOne() {
        AtomicReference<List<Boolean>> seen = new AtomicReference<>();
        AutogradFunction sum =
                function((ctx, inputs) -> tensors(inputs[0].add(inputs[1]).add(inputs[2])), (ctx, dy) -> {
                    seen.set(List.of(ctx.needsInputGrad(0), ctx.needsInputGrad(1), ctx.needsInputGrad(2)));
                    assertThrows(IndexOutOfBoundsException.class, () -> ctx.needsInputGrad(3));
                    return tensors(dy[0], dy[0], dy[0]);
                });
        Tensor constant = Tensors.of(new double[] {1}, 1);
        Tensor number = Tensors.of(new long[] {1}, 1);
        Tensor x = leaf(1);
        sum.apply(constant, x, number)[0].sum().backward();
        assertEquals(List.of(false, true, false), seen.get());
        assertValues(x.grad(), 1);
        assertFalse(constant.grad().defined());
    }

    @Test
    void backwardIsNotRunWhereNoGradientArrives() {
        var runs = new AtomicInteger();
        AutogradFunction counted = function((ctx, inputs) -> tensors(inputs[0].clone()), (ctx, dy) -> {
            runs.incrementAndGet();
            return tensors(dy[0]);
        });
        AutogradFunction cut =
                function((ctx, inputs) -> tensors(inputs[0].clone()), (ctx, dy) -> tensors((Tensor) null));
        Tensor x = leaf(1);
        cut.apply(counted.apply(x)[0])[0].sum().backward();
        assertEquals(0, runs.get());
    }

    @Test
    void integerOutputsHaveNoGradient() {
        AutogradFunction maximum = function(
                (ctx, inputs) -> {
                    Tensor index = inputs[0].argmax();
                    ctx.save(index, inputs[0]);
                    return tensors(index, inputs[0].max());
                },
                (ctx, gradOutputs) -> {
                    assertNull(gradOutputs[0]);
                    Tensor dx = torch.zeros_like(ctx.saved(1));
                    dx.select(0, ctx.saved(0).item_long()).copy_(gradOutputs[1]);
                    return tensors(dx);
                });
        Tensor x = leaf(1, 7, 3);
        Tensor[] y = maximum.apply(x);
        assertEquals(1, y[0].item_long());
        assertFalse(y[0].requires_grad());
        y[1].backward();
        assertValues(x.grad(), 0, 1, 0);
    }

    @Test
    void outputMayBeTheInputItself() {
        AutogradFunction identity = function((ctx, inputs) -> tensors(inputs[0]), (ctx, dy) -> tensors(dy[0].neg()));
        Tensor x = leaf(1, 2);
        Tensor y = identity.apply(x)[0];
        y.sum().backward();
        assertValues(x.grad(), -1, -1);
        y.close();
        assertValues(x, 1, 2);
        try (var noGrad = NoGrad.open()) {
            identity.apply(x)[0].close();
        }
        assertValues(x, 1, 2);
    }

    @Test
    void outputMayBeChangedInPlaceLater() {
        Tensor x = leaf(1, 2);
        Tensor y = SQUARE.apply(x)[0];
        y.mul_(new Scalar(3.0)).add_(x);
        y.sum().backward();
        assertValues(y, 4, 14);
        assertValues(x.grad(), 7, 13);
    }

    /** TorchScript fixes its execution plan in the first runs, and the plan must not depend on dtypes and shapes. */
    @Test
    void onePlanSupportsEveryDtypeAndShape() {
        for (DType dtype : List.of(DType.FLOAT32, DType.FLOAT64, DType.BFLOAT16)) {
            for (long[] shape : new long[][] {{}, {3}, {2, 3}, {2, 0}, {1, 2, 3, 4, 5}}) {
                Tensor x = torch.ones(shape, Device.cpu().options(dtype)).set_requires_grad(true);
                SQUARE.apply(x)[0].sum().backward();
                assertEquals(dtype, DType.of(x.grad()));
                assertArrayEquals(shape, Tensors.shape(x.grad()));
                assertEquals(2.0 * x.numel(), x.grad().sum().item_double());
            }
        }
    }

    @Test
    void anyNumbersOfInputsOutputsAndSavedTensorsWork() {
        for (int inputs = 1; inputs <= 9; inputs++) {
            for (int outputs : new int[] {1, 4}) {
                for (int saved : new int[] {0, 1, 9}) {
                    assertSumIsRight(inputs, outputs, Math.min(inputs, saved));
                }
            }
        }
    }

    /** Output j is (j + 1) times the sum of the inputs. */
    private static void assertSumIsRight(int inputs, int outputs, int saved) {
        AutogradFunction sums = function(
                (ctx, xs) -> {
                    Tensor sum = xs[0];
                    for (int i = 1; i < inputs; i++) {
                        sum = sum.add(xs[i]);
                    }
                    Tensor[] ys = new Tensor[outputs];
                    for (int j = 0; j < outputs; j++) {
                        ys[j] = sum.mul(new Scalar(j + 1.0));
                    }
                    ctx.save(Arrays.copyOf(xs, saved));
                    ctx.save(ys[outputs - 1]);
                    return ys;
                },
                (ctx, dys) -> {
                    for (int i = 0; i < saved; i++) {
                        assertValues(ctx.saved(i), i);
                    }
                    assertValues(ctx.saved(saved), outputs * inputs * (inputs - 1) / 2.0);
                    Tensor dx = dys[0];
                    for (int j = 1; j < outputs; j++) {
                        dx = dx.add(dys[j].mul(new Scalar(j + 1.0)));
                    }
                    Tensor[] dxs = new Tensor[inputs];
                    for (int i = 0; i < inputs; i++) {
                        dxs[i] = dx.mul(new Scalar(i + 1.0));
                    }
                    return dxs;
                });
        Tensor[] xs = new Tensor[inputs];
        for (int i = 0; i < inputs; i++) {
            xs[i] = leaf(i);
        }
        Tensor total = torch.zeros(1);
        for (Tensor y : sums.apply(xs)) {
            total = total.add(y);
        }
        // If the plan is not fixed yet, recording a graph of the first backward pass removes the callback.
        Tensor[] gradients = Backward.of(total).createGraph().gradients(xs);
        for (int i = 0; i < inputs; i++) {
            assertValues(gradients[i], (i + 1) * outputs * (outputs + 1) / 2.0);
        }
    }

    // Saved tensors and values

    private record Exponent(double value) {}

    @Test
    void valuesReachBackwardByTheirClass() {
        AutogradFunction power = function(
                (ctx, inputs) -> {
                    var exponent = new Exponent(3);
                    ctx.put(exponent);
                    ctx.put("three");
                    ctx.save(inputs[0]);
                    return tensors(inputs[0].pow(new Scalar(exponent.value)));
                },
                (ctx, dy) -> {
                    double exponent = ctx.get(Exponent.class).value;
                    assertEquals("three", ctx.get(String.class));
                    var missing = assertThrows(IllegalStateException.class, () -> ctx.get(Integer.class));
                    assertTrue(missing.getMessage().contains("java.lang.Integer"), missing.getMessage());
                    assertThrows(IllegalStateException.class, () -> ctx.put("too late"));
                    assertThrows(IllegalStateException.class, () -> ctx.save(dy));
                    Tensor slope = ctx.saved(0).pow(new Scalar(exponent - 1)).mul(new Scalar(exponent));
                    return tensors(dy[0].mul(slope));
                });
        GradCheck.check(power, leaf(0.5, 2));
    }

    @Test
    void savedTensorsKeepTheOrderOfSaving() {
        AutogradFunction f = function(
                (ctx, inputs) -> {
                    Tensor y = inputs[0].add(inputs[1]);
                    ctx.save(y, inputs[1]);
                    ctx.save(inputs[0].neg());
                    ctx.save(y, inputs[0]);
                    return tensors(y);
                },
                (ctx, dy) -> {
                    assertValues(ctx.saved(0), 3);
                    assertValues(ctx.saved(1), 2);
                    assertValues(ctx.saved(2), -1);
                    assertValues(ctx.saved(3), 3);
                    assertValues(ctx.saved(4), 1);
                    assertThrows(IndexOutOfBoundsException.class, () -> ctx.saved(5));
                    assertThrows(IndexOutOfBoundsException.class, () -> ctx.saved(-1));
                    return tensors(dy[0], dy[0]);
                });
        f.apply(leaf(1), leaf(2))[0].sum().backward();
    }

    @Test
    void graphOutlivesTheScopeItWasRecordedIn() {
        Tensor x = leaf(3);
        Tensor y;
        try (var inner = MemoryScope.open()) {
            Tensor doubled = x.add(x);
            y = inner.escape(SQUARE.apply(doubled)[0].sum());
        }
        assertEquals(1, alive());
        y.backward();
        assertValues(x.grad(), 24);
        assertEquals(0, alive(), "a backward pass frees what was saved");
    }

    @Test
    void graphThatIsNeverRunIsFreedWithItsOutputs() {
        Tensor x = leaf(3);
        try (var inner = MemoryScope.open()) {
            EXP.apply(SQUARE.apply(x)[0]);
            assertEquals(2, alive());
        }
        assertEquals(0, alive());
    }

    @Test
    void tensorsOfAPassAreFreedWhenItEnds() {
        List<Tensor> created = new ArrayList<>();
        AutogradFunction f = function(
                (ctx, inputs) -> {
                    created.add(inputs[0].exp());
                    ctx.save(created.get(0));
                    return tensors(created.get(0).mul(inputs[0]));
                },
                (ctx, dy) -> {
                    created.add(ctx.saved(0));
                    created.add(dy[0].neg());
                    return tensors(created.get(2));
                });
        Tensor x = leaf(1);
        Tensor y = f.apply(x)[0];
        assertTrue(created.get(0).isNull());
        y.sum().backward();
        assertEquals(3, created.size());
        assertTrue(created.stream().allMatch(tensor -> tensor.isNull()));
        assertValues(x.grad(), -1);
    }

    @Test
    void withoutGradientsNothingIsRecorded() {
        AutogradFunction seesNoNeed = function(
                (ctx, inputs) -> {
                    assertFalse(ctx.needsInputGrad(0));
                    ctx.save(inputs[0]);
                    return tensors(inputs[0].exp());
                },
                (ctx, dy) -> dy);
        Tensor x = leaf(0);
        try (var noGrad = NoGrad.open()) {
            Tensor y = seesNoNeed.apply(x)[0];
            assertFalse(y.requires_grad());
            assertValues(y, 1);
        }
        assertFalse(seesNoNeed.apply(x.detach())[0].requires_grad());
        assertEquals(0, alive());
    }

    @Test
    void forwardRecordsNoGraph() {
        Tensor parameter = leaf(2);
        AutogradFunction f = function(
                (ctx, inputs) -> {
                    assertFalse(inputs[0].mul(parameter).requires_grad());
                    return tensors(inputs[0].mul(parameter));
                },
                (ctx, dy) -> tensors(dy[0].mul(parameter)));
        Tensor x = leaf(3);
        f.apply(x)[0].sum().backward();
        assertValues(x.grad(), 2);
        assertTrue(x.mul(parameter).requires_grad(), "grad mode is on again");
        assertFalse(f.apply(x.detach())[0].requires_grad());
    }

    @Test
    void savedInputThatChangedIsRefused() {
        Tensor h = leaf(1, 2).mul(new Scalar(1.0));
        Tensor y = SQUARE.apply(h)[0].sum();
        h.mul_(new Scalar(3.0));
        assertChanged(y);
    }

    @Test
    void savedOutputThatChangedIsRefused() {
        Tensor y = EXP.apply(leaf(1, 2))[0];
        Tensor sum = y.sum();
        try (var noGrad = NoGrad.open()) {
            y.mul_(new Scalar(3.0));
        }
        assertChanged(sum);
    }

    private static void assertChanged(Tensor loss) {
        var error = assertThrows(RuntimeException.class, () -> Backward.of(loss).run());
        assertTrue(error.getMessage().contains("modified by an inplace operation"), error.getMessage());
    }

    // Several backward passes

    @Test
    void graphIsRunAgainOnlyIfRetained() {
        Tensor x = leaf(1, 2);
        Tensor y = SQUARE.apply(x)[0].sum();
        Backward.of(y).retainGraph().run();
        y.backward();
        assertValues(x.grad(), 4, 8);
        var error = assertThrows(RuntimeException.class, y::backward);
        assertTrue(error.getMessage().contains("second time"), error.getMessage());
        assertValues(x.grad(), 4, 8);
    }

    @Test
    void functionWithoutSavedTensorsIsNotRunTwiceEither() {
        AutogradFunction copy = function((ctx, inputs) -> tensors(inputs[0].clone()), (ctx, dy) -> dy);
        Tensor y = copy.apply(leaf(1))[0].sum();
        y.backward();
        assertThrows(RuntimeException.class, y::backward);
    }

    @Test
    void secondDerivativesGoThroughSavedInputsAndOutputs() {
        GradCheck.checkDouble(SQUARE, random(4));
        GradCheck.checkDouble(EXP, random(4));
        Tensor x = leaf(3);
        Tensor dx = Backward.of(EXP.apply(SQUARE.apply(x)[0])[0]).createGraph().gradients(x)[0];
        double e9 = Math.exp(9);
        assertEquals(6 * e9, dx.item_double(), 1e-9 * e9);
        Tensor d2x = Backward.of(dx).createGraph().gradients(x)[0];
        assertEquals((2 + 36) * e9, d2x.item_double(), 1e-9 * e9);
        assertEquals((3 * 2 * 6 + 216) * e9, Backward.of(d2x).gradients(x)[0].item_double(), 1e-9 * e9);
    }

    @Test
    void secondDerivativeThroughAnIntermediateIsRefused() {
        GradCheck.check(CUBE, random(4));
        Tensor x = leaf(3);
        Tensor dx = Backward.of(CUBE.apply(x)[0]).createGraph().gradients(x)[0];
        assertValues(dx, 27);
        var error = assertThrows(
                UnsupportedOperationException.class,
                () -> Backward.of(dx).retainGraph().gradients(x));
        assertTrue(error.getMessage().contains("saved tensor 0 is neither an input nor an output"), error.getMessage());
        assertThrows(UnsupportedOperationException.class, () -> Backward.of(dx).run());
    }

    @Test
    void secondDerivativeOfAOnceDifferentiableFunctionIsRefused() {
        AutogradFunction kernel = function(
                (ctx, inputs) -> {
                    ctx.onceDifferentiable();
                    ctx.save(inputs[0]);
                    return tensors(inputs[0].square());
                },
                (ctx, dy) -> {
                    Tensor dx = torch.empty_like(dy[0]);
                    dx.copy_(dy[0].mul(ctx.saved(0)).mul(new Scalar(2.0)));
                    assertFalse(dx.requires_grad());
                    return tensors(dx);
                });
        GradCheck.check(kernel, random(4));
        Tensor x = leaf(3);
        Tensor y = kernel.apply(x)[0];
        Tensor dx = Backward.of(y).createGraph().gradients(x)[0];
        assertValues(dx, 6);
        assertThrows(UnsupportedOperationException.class, () -> Backward.of(dx).gradients(x));
        Tensor upstream = leaf(1);
        Tensor again = Backward.of(y).with(upstream).createGraph().gradients(x)[0];
        assertThrows(
                UnsupportedOperationException.class, () -> Backward.of(again).gradients(upstream));
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 3, 70})
    void backwardMayRunBackward(int depth) {
        Tensor x = leaf(2);
        nested(depth).apply(x)[0].sum().backward();
        assertValues(x.grad(), 4 * depth + 4);
    }

    /** x², whose backward pass runs the backward pass of nested(depth − 1) and adds its gradient. */
    private static AutogradFunction nested(int depth) {
        return depth == 0
                ? SQUARE
                : function(
                        (ctx, inputs) -> {
                            ctx.save(inputs[0]);
                            return tensors(inputs[0].square());
                        },
                        (ctx, dy) -> {
                            try (var mode = PlainMode.withGradMode(true)) {
                                Tensor x = ctx.saved(0).detach().set_requires_grad(true);
                                nested(depth - 1).apply(x)[0].sum().backward();
                                return tensors(x.detach()
                                        .mul(dy[0])
                                        .mul(new Scalar(2.0))
                                        .add(x.grad()));
                            }
                        });
    }

    // Exceptions

    @Test
    void exceptionOfForwardReachesTheCaller() {
        var thrown = new IllegalArgumentException("forward");
        AutogradFunction failing = function(
                (ctx, inputs) -> {
                    throw thrown;
                },
                (ctx, dy) -> dy);
        Tensor x = leaf(1);
        assertSame(thrown, assertThrows(IllegalArgumentException.class, () -> failing.apply(x)));
        assertTrue(x.mul(x).requires_grad(), "grad mode is on again");
    }

    @Test
    void exceptionOfBackwardReachesTheCallerUnchanged() {
        var cause = new ArithmeticException("cause");
        var thrown = new IllegalArgumentException("backward", cause);
        Tensor x = leaf(1);
        Tensor y = throwing(thrown).apply(SQUARE.apply(x)[0])[0].sum();
        var arrived = assertThrows(
                IllegalArgumentException.class,
                () -> Backward.of(y).retainGraph().run());
        assertSame(thrown, arrived);
        assertSame(cause, arrived.getCause());
        assertEquals(1, arrived.getSuppressed().length, "the exception at the call is suppressed");
        assertSame(
                thrown,
                assertThrows(
                        IllegalArgumentException.class, () -> Backward.of(y).gradients(x)));
        SQUARE.apply(x)[0].sum().backward();
        assertValues(x.grad(), 2);
    }

    @Test
    void errorOfBackwardReachesTheCallerToo() {
        var thrown = new StackOverflowError("backward");
        Tensor y = throwing(thrown).apply(leaf(1))[0].sum();
        assertSame(
                thrown,
                assertThrows(StackOverflowError.class, () -> Backward.of(y).run()));
    }

    @Test
    void exceptionOfBackwardWithLongMessageReachesTheCallerToo() {
        var thrown = new IllegalArgumentException("shapes ".repeat(1_000));
        Tensor y = throwing(thrown).apply(leaf(1))[0].sum();
        assertSame(
                thrown,
                assertThrows(
                        IllegalArgumentException.class, () -> Backward.of(y).run()));
    }

    @Test
    void checkedExceptionOfBackwardIsTheCause() {
        var thrown = new java.io.IOException("backward");
        Tensor y = throwing(thrown).apply(leaf(1))[0].sum();
        assertSame(
                thrown,
                assertThrows(IllegalStateException.class, () -> Backward.of(y).run())
                        .getCause());
    }

    @Test
    void backwardOfThePresetsHasTheMessage() {
        Tensor y = throwing(new IllegalArgumentException("the message"))
                .apply(leaf(1))[0]
                .sum();
        var arrived = assertThrows(RuntimeException.class, y::backward);
        assertTrue(
                arrived.getMessage().contains("java.lang.IllegalArgumentException: the message"), arrived.getMessage());
    }

    @Test
    void exceptionCrossesNestedBackwardPasses() {
        var thrown = new IllegalArgumentException("inner");
        AutogradFunction outer = function((ctx, inputs) -> tensors(inputs[0].clone()), (ctx, dy) -> {
            try (var mode = PlainMode.withGradMode(true)) {
                throwing(thrown).apply(leaf(1))[0].sum().backward();
            }
            return dy;
        });
        Tensor y = outer.apply(leaf(1))[0].sum();
        assertSame(
                thrown,
                assertThrows(
                        IllegalArgumentException.class, () -> Backward.of(y).run()));
    }

    @Test
    void invalidInputsAreReported() {
        Tensor closed = leaf(1);
        closed.close();
        for (Tensor invalid : tensors(null, closed, new Tensor())) {
            var error = assertThrows(IllegalArgumentException.class, () -> PRODUCT_AND_SUM.apply(leaf(1), invalid));
            assertTrue(error.getMessage().startsWith("input 1 of "), error.getMessage());
        }
    }

    @Test
    void forwardMustReturnAndSaveTensors() {
        Tensor x = leaf(1);
        for (Tensor[] outputs : new Tensor[][] {null, {}, {null}, {new Tensor()}}) {
            AutogradFunction f = function((ctx, inputs) -> outputs, (ctx, dy) -> dy);
            assertThrows(IllegalStateException.class, () -> f.apply(x));
        }
        AutogradFunction savesNull = function(
                (ctx, inputs) -> {
                    ctx.save(inputs[0], null);
                    return inputs;
                },
                (ctx, dy) -> dy);
        var error = assertThrows(IllegalArgumentException.class, () -> savesNull.apply(x));
        assertTrue(error.getMessage().startsWith("tensor 1 that "), error.getMessage());
        AutogradFunction putsTensor = function(
                (ctx, inputs) -> {
                    ctx.put(inputs[0]);
                    return inputs;
                },
                (ctx, dy) -> dy);
        assertThrows(IllegalArgumentException.class, () -> putsTensor.apply(x));
    }

    @Test
    void forwardMustNotChangeItsInputs() {
        AutogradFunction inPlace = function((ctx, inputs) -> tensors(inputs[0].add_(new Scalar(1.0))), (ctx, dy) -> dy);
        var error = assertThrows(IllegalStateException.class, () -> inPlace.apply(leaf(1).clone()));
        assertTrue(error.getMessage().contains("changed input 0 in place"), error.getMessage());
    }

    @Test
    void gradientsMustMatchTheInputs() {
        assertBadGradients("must return 1 gradients", dy -> tensors());
        assertBadGradients("must return 1 gradients", dy -> tensors(dy, dy));
        assertBadGradients("it returned null", dy -> null);
        assertBadGradients("has shape [1, 2]; input 0 has [2]", dy -> tensors(dy.reshape(1, 2)));
        assertBadGradients("has shape []; input 0 has [2]", dy -> tensors(dy.sum()));
        assertBadGradients("is undefined", dy -> tensors(new Tensor()));
        assertBadGradients("is closed", dy -> {
            Tensor closed = dy.clone();
            closed.close();
            return tensors(closed);
        });
    }

    private static void assertBadGradients(String message, java.util.function.Function<Tensor, Tensor[]> backward) {
        Tensor y = function((ctx, inputs) -> tensors(inputs[0].clone()), (ctx, dy) -> backward.apply(dy[0]))
                .apply(leaf(1, 2))[0];
        var error = assertThrows(
                IllegalStateException.class, () -> Backward.of(y.sum()).run());
        assertTrue(error.getMessage().contains(message), error.getMessage());
    }

    // Modes and dtypes

    @Test
    void autocastIsOffInsideBothPasses() {
        List<DType> seen = new ArrayList<>();
        AutogradFunction matmul = function(
                (ctx, inputs) -> {
                    ctx.save(inputs);
                    seen.add(DType.of(inputs[0].matmul(inputs[0])));
                    return tensors(inputs[0].matmul(inputs[0]));
                },
                (ctx, dy) -> {
                    seen.add(DType.of(ctx.saved(0).matmul(ctx.saved(0))));
                    return tensors(dy[0]);
                });
        Tensor x = torch.ones(2, 2).set_requires_grad(true);
        try (var autocast = Autocast.of(Device.cpu(), DType.BFLOAT16)) {
            Tensor y = matmul.apply(x)[0];
            assertEquals(DType.BFLOAT16, DType.of(x.matmul(x)), "autocast is on again");
            Backward.of(y.sum()).run();
            assertEquals(DType.BFLOAT16, DType.of(x.matmul(x)), "autocast is on again");
        }
        assertEquals(List.of(DType.FLOAT32, DType.FLOAT32), seen);
    }

    @Test
    void planMayBeMadeUnderAutocast() {
        Tensor x = torch.ones(2).set_requires_grad(true);
        Tensor[] eleven = new Tensor[11];
        Arrays.fill(eleven, x);
        AutogradFunction first = function((ctx, inputs) -> tensors(inputs[0].clone()), (ctx, dy) -> {
            Tensor[] gradients = new Tensor[11];
            gradients[0] = dy[0];
            return gradients;
        });
        try (var autocast = Autocast.of(Device.cpu(), DType.BFLOAT16)) {
            first.apply(eleven)[0].sum().backward();
        }
        assertValues(x.grad(), 1, 1);
    }

    @Test
    void gradientOfAnotherDtypeIsCast() {
        AutogradFunction narrow = function((ctx, inputs) -> tensors(inputs[0].to(ScalarType.BFloat16)), (ctx, dy) -> {
            assertEquals(DType.BFLOAT16, DType.of(dy[0]));
            return tensors(dy[0]);
        });
        Tensor x = torch.ones(2).set_requires_grad(true);
        narrow.apply(x)[0].sum().backward();
        assertEquals(DType.FLOAT32, DType.of(x.grad()));
    }

    // Threads and memory

    @Test
    void severalThreadsCanUseTheSameFunction() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(4);
        try {
            List<Future<Void>> results = new ArrayList<>();
            for (int t = 0; t < 4; t++) {
                double value = t + 1;
                results.add(threads.submit((Callable<Void>) () -> {
                    for (int i = 0; i < 200; i++) {
                        try (var own = MemoryScope.open()) {
                            Tensor x = leaf(value, i);
                            Tensor[] y = PRODUCT_AND_SUM.apply(SQUARE.apply(x)[0], x);
                            y[0].sum().backward(); // x³
                            assertValues(x.grad(), 3 * value * value, 3.0 * i * i);
                        }
                    }
                    return null;
                }));
            }
            for (Future<Void> result : results) {
                result.get();
            }
        } finally {
            threads.shutdown();
        }
    }

    @Test
    void oneGraphCanBeUsedByTwoThreads() throws Exception {
        Tensor x = leaf(3);
        Tensor y = EXP.apply(SQUARE.apply(x)[0])[0].sum();
        ExecutorService threads = Executors.newFixedThreadPool(2);
        try {
            List<Future<Double>> results = new ArrayList<>();
            for (int i = 0; i < 100; i++) {
                results.add(threads.submit(() -> {
                    try (var own = MemoryScope.open()) {
                        return Backward.of(y).retainGraph().gradients(x)[0].item_double();
                    }
                }));
            }
            for (Future<Double> result : results) {
                assertEquals(6 * Math.exp(9), result.get(), 1e-8);
            }
        } finally {
            threads.shutdown();
        }
    }

    static final class Passes implements MemoryGrowth.Work {
        private final Tensor x = torch.ones(64, 256).set_requires_grad(true); // 64 KiB
        private final Tensor weight = torch.ones(256).set_requires_grad(true);
        private final AutogradFunction sum = new WeightedSumFunction();
        private int steps;

        @Override
        public void step() {
            int i = steps++;
            if (i % 200 == 0) {
                System.gc(); // must not collect callbacks that native code still calls
            }
            try (var step = MemoryScope.open()) {
                sum.apply(EXP.apply(x)[0], weight)[0].sum().backward();
                if (i % 10 == 0) {
                    CUBE.apply(x); // a graph without a backward pass
                }
                x.mutable_grad().reset();
                weight.mutable_grad().reset();
            }
            assertEquals(Set.of(), DifferentiableGraph.alive());
        }
    }

    @Test
    void memoryStaysFlat() throws Exception {
        MemoryGrowth.assertFlat(Passes.class, 400, 50);
    }

    static final class FailedPasses implements MemoryGrowth.Work {
        private final Tensor x = torch.ones(1 << 18).set_requires_grad(true); // 1 MiB

        @Override
        public void step() {
            try (var step = MemoryScope.open()) {
                Tensor y = throwing(new IllegalArgumentException("step")).apply(EXP.apply(x)[0])[0];
                assertThrows(
                        IllegalArgumentException.class,
                        () -> Backward.of(y.sum()).run());
            }
            assertEquals(Set.of(), DifferentiableGraph.alive());
        }
    }

    @Test
    void failedPassesLeaveNothingBehind() throws Exception {
        MemoryGrowth.assertFlat(FailedPasses.class, 400, 150);
    }

    @Test
    void engineThreadsAreOffDuringBackwardAndRestoredAfterwards() {
        AtomicReference<Boolean> during = new AtomicReference<>();
        AutogradFunction copy = function((ctx, inputs) -> tensors(inputs[0].clone()), (ctx, dy) -> {
            during.set(engineThreadsAreOn());
            return dy;
        });
        Tensor x = torch.ones(10).set_requires_grad(true);
        Backward.of(copy.apply(x)[0].sum()).run();
        assertFalse(during.get());
        assertTrue(engineThreadsAreOn());
        Backward.of(copy.apply(x)[0].sum()).gradients(x);
        assertFalse(during.get());
        assertTrue(engineThreadsAreOn());
        Tensor y = throwing(new IllegalArgumentException("step")).apply(x)[0].sum();
        assertThrows(IllegalArgumentException.class, () -> Backward.of(y).run());
        assertTrue(engineThreadsAreOn());
    }

    private static boolean engineThreadsAreOn() {
        return AutogradState.get_tls_state().get_multithreading_enabled();
    }

    // On a GPU

    @Test
    @Tag("gpu")
    void backwardOnTheGpuRunsOnTheCallersThreadOrAnEngineThread() {
        Device gpu = Device.cuda(0);
        AtomicReference<Thread> thread = new AtomicReference<>();
        AutogradFunction square = function(
                (ctx, inputs) -> {
                    ctx.save(inputs[0]);
                    return tensors(inputs[0].square());
                },
                (ctx, dy) -> {
                    thread.set(Thread.currentThread());
                    return tensors(dy[0].mul(ctx.saved(0)).mul(new Scalar(2.0)));
                });
        Tensor x = torch.ones(new long[] {1000}, gpu.options(DType.FLOAT32)).set_requires_grad(true);
        Backward.of(square.apply(x)[0].sum()).run();
        assertEquals(2000, x.grad().sum().item_double());
        assertSame(Thread.currentThread(), thread.get());
        square.apply(x)[0].sum().backward();
        assertEquals(4000, x.grad().sum().item_double());
        assertNotSame(Thread.currentThread(), thread.get());
    }

    @Test
    @Tag("gpu")
    void backwardRunsOnTheStreamOfForward() {
        Device gpu = Device.cuda(0);
        AtomicReference<Long> stream = new AtomicReference<>();
        AutogradFunction copy = function((ctx, inputs) -> tensors(inputs[0].clone()), (ctx, dy) -> {
            stream.set(torch_cuda.getCurrentCUDAStream().id());
            return dy;
        });
        Tensor x = torch.ones(new long[] {10}, gpu.options(DType.FLOAT32)).set_requires_grad(true);
        gpu.synchronize();
        boolean highPriority = false;
        var side = torch_cuda.getStreamFromPool(highPriority, (byte) 0);
        var usual = torch_cuda.getCurrentCUDAStream();
        Tensor y;
        torch_cuda.setCurrentCUDAStream(side);
        try {
            y = copy.apply(x)[0];
        } finally {
            torch_cuda.setCurrentCUDAStream(usual);
        }
        side.synchronize();
        Tensor sum = y.sum();
        Backward.of(sum).retainGraph().run();
        assertEquals(side.id(), stream.getAndSet(null));
        sum.backward();
        assertEquals(side.id(), stream.get());
        gpu.synchronize();
        assertEquals(20, x.grad().sum().item_double());
    }

    @Test
    @Tag("gpu")
    void exceptionOnTheGpuReachesTheCaller() {
        var thrown = new IllegalArgumentException("on the GPU");
        Tensor x = torch.ones(new long[] {10}, Device.cuda(0).options(DType.FLOAT32))
                .set_requires_grad(true);
        Tensor y = throwing(thrown).apply(x)[0].sum();
        assertSame(
                thrown,
                assertThrows(
                        IllegalArgumentException.class, () -> Backward.of(y).run()));
        SQUARE.apply(x)[0].sum().backward();
        assertEquals(20, x.grad().sum().item_double());
    }

    @Test
    @Tag("gpu")
    void derivativesOnTheGpuAreCorrect() {
        Device gpu = Device.cuda(0);
        Tensor x = random(3, 4).to(gpu.toTorch(), ScalarType.Double);
        Tensor weight = random(4).to(gpu.toTorch(), ScalarType.Double);
        GradCheck.check(new WeightedSumFunction(), x, weight);
        GradCheck.checkDouble(new WeightedSumFunction(), x, weight);
        GradCheck.checkDouble(EXP, x);
        GradCheck.check(PRODUCT_AND_SUM, x, x);
    }

    @Test
    @Tag("gpu")
    void memoryOfGpuAndHostStaysConstant() {
        Device gpu = Device.cuda(0);
        Tensor x = torch.ones(new long[] {64, 256}, gpu.options(DType.FLOAT32)).set_requires_grad(true);
        Tensor weight = torch.ones(new long[] {256}, gpu.options(DType.FLOAT32)).set_requires_grad(true);
        long onGpu = 0;
        long onHost = 0;
        for (int i = 0; i < 20_000; i++) {
            if (i % 200 == 0) {
                System.gc(); // on a large machine the Java heap would keep growing for minutes
            }
            if (i == 4_000) {
                onGpu = MemoryStats.current(gpu);
                onHost = MemoryStats.current(Device.cpu());
            }
            try (var step = MemoryScope.open()) {
                new WeightedSumFunction()
                        .apply(EXP.apply(x)[0], weight)[0]
                        .sum()
                        .backward();
                x.mutable_grad().reset();
                weight.mutable_grad().reset();
            }
        }
        assertEquals(onGpu, MemoryStats.current(gpu));
        long grownBy = MemoryStats.current(Device.cpu()) - onHost;
        assertTrue(grownBy < 50 * MIB, "the host grew by " + grownBy / MIB + " MiB over 16000 steps");
    }

    @Test
    @Tag("gpu")
    void gpuAndCpuAndNestedPassesCanBeCombined() {
        Tensor x = torch.ones(new long[] {2}, Device.cuda(0).options(DType.FLOAT64))
                .set_requires_grad(true);
        nested(3).apply(x)[0].cpu().square().sum().backward();
        assertEquals(2 * (4 + 6), x.grad().sum().item_double());
    }
}
