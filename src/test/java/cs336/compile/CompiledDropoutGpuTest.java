package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Dropout;
import cs336.basics.Linear;
import cs336.basics.NnModule;
import cs336.bench.Precision;
import cs336.checkpointing.ActivationCheckpoint;
import cs336.torch.Backward;
import cs336.torch.CudaGraph;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.ScopedTest;
import cs336.torch.Torch;
import java.util.Arrays;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Dropout in compiled functions and steps, which run as CUDA graphs. */
@Tag("gpu")
class CompiledDropoutGpuTest extends ScopedTest {
    private static final Device GPU = Device.cuda(0);
    private static final int N = 1 << 16;

    private static final class Perceptron extends NnModule {
        private final Linear first = child("first", new Linear(64, 256, GPU, DType.FLOAT32));
        private final Dropout dropout = child("dropout", new Dropout(0.5));
        private final Linear last = child("last", new Linear(256, 1, GPU, DType.FLOAT32));

        @Override
        protected Tensor compute(Tensor x) {
            return last.forward(dropout.forward(first.forward(x).relu()));
        }
    }

    @BeforeEach
    void seed() {
        Torch.seed(2);
    }

    private static void assertHalfIsZero(Tensor y) {
        double zeros = y.eq(new Scalar(0.0)).sum().item_double();
        assertEquals(0.5 * N, zeros, 5 * Math.sqrt(0.25 * N), "zeros"); // five standard deviations
    }

    @Test
    void eachCallDrawsNewNumbersWithAndWithoutAGraph() {
        Tensor x = torch.ones(new long[] {N}, GPU.options(DType.FLOAT32));
        try (var noGrad = NoGrad.open();
                var dropout = new Dropout(0.5);
                var plain = Compiled.of(dropout);
                var graph = Compiled.of(dropout).asGraph()) {
            for (Compiled compiled : new Compiled[] {plain, graph}) {
                for (int i = 0; i < 3; i++) {
                    compiled.apply(x); // records, and with a graph warms up
                }
                Torch.seed(7);
                Tensor first = compiled.apply(x)[0].clone();
                Tensor second = compiled.apply(x)[0].clone();
                Torch.seed(7);
                Tensor again = compiled.apply(x)[0].clone();
                assertHalfIsZero(first);
                assertHalfIsZero(second);
                assertFalse(torch.equal(first, second));
                assertTrue(torch.equal(first, again));
            }
        }
    }

    @Test
    void aGraphOfTheCallerDrawsNewNumbersInEachReplay() {
        Tensor x = torch.ones(new long[] {N}, GPU.options(DType.FLOAT32));
        Tensor y = torch.empty_like(x);
        try (var noGrad = NoGrad.open();
                var dropout = new Dropout(0.5);
                var compiled = Compiled.of(dropout);
                var graph = CudaGraph.on(GPU)) {
            Runnable work = () -> y.copy_(compiled.apply(x)[0]);
            graph.warmUp(work);
            graph.record(work);
            graph.replay();
            Tensor first = y.clone();
            graph.replay();
            assertHalfIsZero(first);
            assertHalfIsZero(y);
            assertFalse(torch.equal(first, y));
        }
    }

    @Test
    void twoCallsInAGraphDrawDifferentNumbers() {
        Tensor x = torch.ones(new long[] {N}, GPU.options(DType.FLOAT32));
        Tensor y = torch.empty_like(x);
        Tensor z = torch.empty_like(x);
        try (var noGrad = NoGrad.open();
                var dropout = new Dropout(0.5);
                var compiled = Compiled.of(dropout);
                var graph = CudaGraph.on(GPU)) {
            Runnable work = () -> {
                y.copy_(compiled.apply(x)[0]);
                z.copy_(compiled.apply(x)[0]);
            };
            graph.warmUp(work);
            graph.record(work);
            graph.replay();
            assertHalfIsZero(y);
            assertHalfIsZero(z);
            assertFalse(torch.equal(y, z));
        }
    }

    @Test
    void aCheckpointedCallInAGraphHasTheGradientOfItsOutput() {
        Tensor x = torch.randn(new long[] {N}, GPU.options(DType.FLOAT32)).set_requires_grad(true);
        Tensor y = torch.zeros(new long[] {N}, GPU.options(DType.FLOAT32));
        Tensor gradient = torch.zeros(new long[] {N}, GPU.options(DType.FLOAT32));
        try (var dropout = new Dropout(0.5);
                var compiled = Compiled.of(in -> new Tensor[] {dropout.forward(in[0].exp())}, dropout);
                var graph = CudaGraph.on(GPU)) {
            Runnable work = () -> {
                try (var scope = MemoryScope.open()) {
                    Tensor result = ActivationCheckpoint.apply(in -> compiled.apply(in)[0], x);
                    y.copy_(result.detach());
                    gradient.copy_(Backward.of(result.sum()).gradients(x)[0]);
                }
            };
            graph.warmUp(work);
            graph.record(work);
            for (int i = 0; i < 2; i++) {
                graph.replay();
                assertHalfIsZero(y);
                assertTrue(torch.allclose(y, gradient), "replay " + i); // the derivative of exp is exp
            }
        }
    }

    @Test
    void theGradientIsZeroWhereTheOutputIs() {
        Tensor x = torch.randn(new long[] {N}, GPU.options(DType.FLOAT32)).set_requires_grad(true);
        try (var dropout = new Dropout(0.5);
                var compiled = Compiled.of(in -> new Tensor[] {dropout.forward(in[0].exp())}, dropout)) {
            for (int i = 0; i < 3; i++) {
                Tensor first = compiled.apply(x)[0];
                Tensor second = compiled.apply(x)[0]; // draws other numbers before the backward pass of the first call
                x.mutable_grad().put(new Tensor());
                first.sum().backward();
                assertTrue(torch.allclose(first.detach(), x.grad()), "call " + i); // the derivative of exp is exp
                assertHalfIsZero(first.detach());
                assertFalse(torch.equal(first.detach(), second.detach()));
            }
        }
    }

    /** Returns the losses of steps on the same batch with weights that do not change. */
    private static double[] losses(int steps, boolean isFused, Precision precision) {
        Torch.seed(3);
        try (var module = new Perceptron();
                var optimizer = new AdamW(module.namedParameters(), AdamWSettings.of(0));
                var step = CompiledStep.of(module, CompiledStepTest::squaredError, optimizer, precision)) {
            if (isFused) {
                step.fuse();
            }
            Tensor x = torch.randn(new long[] {64, 64}, GPU.options(DType.FLOAT32));
            Tensor targets = torch.randn(new long[] {64, 1}, GPU.options(DType.FLOAT32));
            double[] losses = new double[steps];
            for (int i = 0; i < steps; i++) {
                losses[i] = step.run(x, targets).item_double();
            }
            return losses;
        }
    }

    @Test
    void replayedStepsDrawNewNumbers() {
        for (Precision precision : new Precision[] {Precision.FP32, Precision.BF16}) {
            double[] losses = losses(12, true, precision);
            assertEquals(losses.length, Arrays.stream(losses).distinct().count(), "all losses differ");
            assertArrayEquals(losses, losses(12, true, precision), "the same seed gives the same losses");
        }
    }

    @Test
    void withoutFusionAGraphWithDropoutIsRefused() {
        var refused = assertThrows(IllegalStateException.class, () -> losses(4, false, Precision.FP32));
        assertTrue(refused.getMessage().contains("dropout"), refused.getMessage());
        assertEquals(2, losses(2, false, Precision.FP32).length); // the GPU remains usable
    }
}
