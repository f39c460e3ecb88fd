package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.GradScaler;
import cs336.basics.GradientClipping;
import cs336.basics.NnModule;
import cs336.basics.Optimizer;
import cs336.basics.Sgd;
import cs336.bench.Precision;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.DoubleStream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

/** Steps of small modules, next to a plain loop. */
class CompiledStepEdgeCasesTest extends ScopedTest {
    private static final int STEPS = 5;
    private static final double MAX_NORM = 0.05;

    /** A module that adds a weight and a bias to its input. */
    private static final class Sum extends NnModule {
        private final Tensor weight;
        private final Tensor bias;

        Sum(DType ofBias) {
            weight = parameter("weight", torch.randn(4, 3));
            bias = parameter("bias", torch.randn(3).to(ofBias.scalarType()));
        }

        @Override
        protected Tensor compute(Tensor input) {
            return input.add(weight).add(bias);
        }
    }

    private enum Loop {
        PLAIN,
        OPERATORS,
        FUSED
    }

    /** The gradient of a sum is one element that is expanded to the shape of the weight. */
    @Test
    void theGradientsOfASumAreClippedAndUnscaled() {
        for (Precision precision : List.of(Precision.FP32, Precision.FP16)) {
            assertEqualLoops(DType.FLOAT32, precision, Tensor::sum, parameters -> new Sgd(parameters, 0.1, 0.9));
        }
    }

    @Test
    void gradientsInTwoDtypesAreClipped() {
        assertEqualLoops(
                DType.FLOAT64,
                Precision.FP32,
                output -> output.square().mean(),
                parameters -> new AdamW(parameters, AdamWSettings.of(1e-2)));
    }

    /** After an exception of the optimizer the next step starts without accumulated gradients. */
    @Test
    void aStepCanBeRepeatedAfterAnExceptionOfTheOptimizer() {
        for (Precision precision : List.of(Precision.FP32, Precision.FP16)) {
            for (boolean isFused : new boolean[] {false, true}) {
                double[][] weights = new double[2][];
                for (int i = 0; i < 2; i++) {
                    Torch.seed(5);
                    try (var module = new Sum(DType.FLOAT32);
                            var optimizer = new FailingOptimizer(module.namedParameters());
                            var step = CompiledStep.of(module, CompiledStepTest::squaredError, optimizer, precision)) {
                        if (isFused) {
                            step.fuse();
                        }
                        step.clip(MAX_NORM);
                        Tensor inputs = torch.randn(4, 3);
                        Tensor targets = torch.randn(4, 3);
                        if (i == 1) {
                            step.accumulate(inputs.neg(), targets);
                            optimizer.fails = true;
                            var error = assertThrows(ArithmeticException.class, () -> step.run(inputs, targets));
                            assertEquals("planned", error.getMessage());
                            optimizer.fails = false;
                        }
                        step.run(inputs, targets);
                        weights[i] = Tensors.toDoubles(module.weight);
                    }
                }
                assertArrayEquals(weights[0], weights[1], precision + ", fused: " + isFused);
            }
        }
    }

    @Test
    void theCallerMayCloseTheLoss() {
        for (boolean isFused : new boolean[] {false, true}) {
            try (var module = new Sum(DType.FLOAT32);
                    var optimizer = new Sgd(module.namedParameters(), 0, 0);
                    var step = CompiledStep.of(module, CompiledStepTest::squaredError, optimizer, Precision.FP32)) {
                if (isFused) {
                    step.fuse();
                }
                Tensor inputs = torch.randn(4, 3);
                double[] losses = new double[STEPS];
                for (int i = 0; i < STEPS; i++) {
                    try (Tensor loss = step.run(inputs, inputs)) {
                        losses[i] = loss.item_double();
                    }
                    assertEquals(losses[0], losses[i]);
                }
                assertTrue(losses[0] > 0);
            }
        }
    }

    /** An optimizer that throws instead of updating the parameters. */
    private static final class FailingOptimizer implements Optimizer {
        private final Sgd sgd;
        private boolean fails;

        FailingOptimizer(Map<String, Tensor> parameters) {
            sgd = new Sgd(parameters, 0.1, 0);
        }

        @Override
        public void step() {
            if (fails) {
                throw new ArithmeticException("planned");
            }
            sgd.step();
        }

        @Override
        public Map<String, Tensor> parameters() {
            return sgd.parameters();
        }

        @Override
        public double learningRate() {
            return sgd.learningRate();
        }

        @Override
        public void setLearningRate(double learningRate) {
            sgd.setLearningRate(learningRate);
        }

        @Override
        public Map<String, Tensor> state() {
            return sgd.state();
        }

        @Override
        public void requireLoadable(Map<String, Tensor> state) {
            sgd.requireLoadable(state);
        }

        @Override
        public void loadState(Map<String, Tensor> state) {
            sgd.loadState(state);
        }

        @Override
        public void close() {
            sgd.close();
        }
    }

    private static void assertEqualLoops(
            DType ofBias,
            Precision precision,
            Function<Tensor, Tensor> loss,
            Function<Map<String, Tensor>, Optimizer> optimizer) {
        double[] expected = train(Loop.PLAIN, ofBias, precision, loss, optimizer);
        for (Loop loop : List.of(Loop.OPERATORS, Loop.FUSED)) {
            assertArrayEquals(expected, train(loop, ofBias, precision, loss, optimizer), loop + ", " + precision);
        }
    }

    /** Returns the loss and the parameters after each step. */
    private static double[] train(
            Loop loop,
            DType ofBias,
            Precision precision,
            Function<Tensor, Tensor> loss,
            Function<Map<String, Tensor>, Optimizer> createOptimizer) {
        Torch.seed(3);
        List<Tensor> results = new ArrayList<>();
        try (var module = new Sum(ofBias);
                var optimizer = createOptimizer.apply(module.namedParameters());
                var scaler = precision.scaler(Device.cpu());
                var step = CompiledStep.of(module, (output, targets) -> loss.apply(output), optimizer, precision)) {
            step.clip(MAX_NORM);
            if (loop == Loop.FUSED) {
                step.fuse();
            }
            for (int i = 0; i < STEPS; i++) {
                Tensor inputs = torch.randn(4, 3);
                Tensor value = loop == Loop.PLAIN
                        ? plainStep(module, inputs, precision, loss, optimizer, scaler)
                        : step.run(inputs, inputs);
                results.add(value.detach().to(torch.ScalarType.Float).clone());
                module.parameters()
                        .forEach(parameter -> results.add(parameter.detach().clone()));
            }
            return results.stream()
                    .flatMapToDouble(result -> DoubleStream.of(Tensors.toDoubles(result)))
                    .toArray();
        }
    }

    private static Tensor plainStep(
            NnModule module,
            Tensor inputs,
            Precision precision,
            Function<Tensor, Tensor> lossFunction,
            Optimizer optimizer,
            GradScaler scaler) {
        try (var scope = MemoryScope.open()) {
            optimizer.zeroGrad();
            Tensor loss;
            try (var autocast = precision.autocast(Device.cpu())) {
                loss = lossFunction.apply(module.forward(inputs));
            }
            scaler.scale(loss).backward();
            scaler.unscale(optimizer);
            GradientClipping.clipByGlobalNorm(module.parameters(), MAX_NORM);
            scaler.step(optimizer);
            scaler.update();
            return scope.escape(loss);
        }
    }
}
