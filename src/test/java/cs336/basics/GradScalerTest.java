package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.MemoryGrowth;
import cs336.safetensors.Safetensors;
import cs336.torch.Autocast;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class GradScalerTest extends ScopedTest {
    private static final double SCALE = 1024;
    private static final GradScalerSettings OPTIONS = new GradScalerSettings(SCALE, 4, 0.25, 3);

    private final Device cpu = Device.cpu();
    private Map<String, Tensor> parameters;
    private AdamW optimizer;
    private GradScaler scaler;

    @BeforeEach
    void open() {
        Torch.seed(3);
        parameters = parameters(cpu);
        optimizer = new AdamW(parameters, AdamWSettings.of(0.1));
        scaler = new GradScaler(cpu, OPTIONS);
    }

    @AfterEach
    void close() {
        scaler.close();
        optimizer.close();
    }

    private static Map<String, Tensor> parameters(Device device) {
        Map<String, Tensor> parameters = new LinkedHashMap<>();
        parameters.put(
                "a",
                torch.randn(new long[] {5, 3}, device.options(DType.FLOAT32)).set_requires_grad(true));
        parameters.put(
                "b", torch.randn(new long[] {7}, device.options(DType.FLOAT32)).set_requires_grad(true));
        parameters.put(
                "wide",
                torch.randn(new long[] {2}, device.options(DType.FLOAT64)).set_requires_grad(true));
        return parameters;
    }

    /** Computes the gradients of Σ w²/2, which are w, times the scale. */
    private static void backward(Map<String, Tensor> parameters, GradScaler scaler) {
        Tensor loss = torch.zeros();
        for (Tensor parameter : parameters.values()) {
            Tensor term = parameter.square().sum().mul(new Scalar(0.5)).to(ScalarType.Float);
            loss = term.add(loss.to(term.device(), ScalarType.Float));
        }
        scaler.scale(loss).backward();
    }

    private static void overwrite(Tensor parameter, double value) {
        parameter.grad().view(-1).select(0, 1).fill_(new Scalar(value));
    }

    private static double[] values(Map<String, Tensor> tensors) {
        return tensors.values().stream()
                .flatMapToDouble(t -> java.util.Arrays.stream(Tensors.toDoubles(t)))
                .toArray();
    }

    private void goodStep() {
        optimizer.zeroGrad();
        backward(parameters, scaler);
        assertTrue(scaler.step(optimizer));
        scaler.update();
    }

    @Test
    void aScaledStepEqualsAnUnscaledStepBitForBit() {
        Map<String, Tensor> plain = new LinkedHashMap<>();
        parameters.forEach((name, p) -> plain.put(name, p.detach().clone().set_requires_grad(true)));
        try (var plainOptimizer = new AdamW(plain, AdamWSettings.of(0.1));
                var off = GradScaler.disabled()) {
            for (int t = 0; t < 5; t++) {
                goodStep(); // the scale is a power of 2: no rounding
                plainOptimizer.zeroGrad();
                backward(plain, off);
                assertTrue(off.step(plainOptimizer));
                off.update();
            }
        }
        assertArrayEquals(values(plain), values(parameters));
    }

    @ParameterizedTest(name = "{1} in {0}")
    @CsvSource({"a, Infinity", "a, -Infinity", "b, NaN", "wide, Infinity"})
    void anOverflowShrinksTheScaleAndChangesNothingElse(String name, double value) {
        goodStep();
        double[] before = values(parameters);
        double[] moments = values(optimizer.state());
        optimizer.zeroGrad();
        backward(parameters, scaler);
        overwrite(parameters.get(name), value);
        assertFalse(scaler.step(optimizer));
        scaler.update();
        assertEquals(SCALE / 4, scaler.scale());
        assertArrayEquals(before, values(parameters));
        assertArrayEquals(moments, values(optimizer.state()), "moments and steps");
        goodStep();
        assertEquals(2, optimizer.states().get("a").step());
    }

    @Test
    void closingTwiceChangesNothing() {
        scaler.close();
        scaler.close();
        assertThrows(IllegalStateException.class, scaler::scale);
    }

    @Test
    void theScaleGrowsAfterAnIntervalWithoutOverflowAndRestartsTheCountAfterOne() {
        goodStep();
        goodStep();
        assertEquals(SCALE, scaler.scale());
        goodStep();
        assertEquals(SCALE * 4, scaler.scale());
        goodStep();
        goodStep();
        optimizer.zeroGrad();
        backward(parameters, scaler);
        overwrite(parameters.get("b"), Double.NaN);
        scaler.step(optimizer);
        scaler.update();
        assertEquals(SCALE, scaler.scale());
        goodStep();
        goodStep();
        assertEquals(SCALE, scaler.scale(), "the count starts again after an overflow");
        goodStep();
        assertEquals(SCALE * 4, scaler.scale());
    }

    @Test
    void theDefaultsArePyTorchs() {
        try (var fresh = new GradScaler(cpu)) {
            assertEquals(65_536, fresh.scale());
            assertEquals(new GradScalerSettings(65_536, 2, 0.5, 2_000), GradScalerSettings.DEFAULT);
        }
    }

    @Test
    void clippingAfterUnscaleUsesUnscaledGradients() {
        backward(parameters, scaler);
        scaler.unscale(optimizer);
        double norm = Math.sqrt(
                java.util.Arrays.stream(values(parameters)).map(w -> w * w).sum());
        Map<String, Tensor> ofOneType = new LinkedHashMap<>(parameters);
        assertEquals(
                norm,
                GradientClipping.clipByGlobalNorm(ofOneType.values(), norm / 2).item_double(),
                1e-5 * norm);
        double[] clipped = parameters.values().stream()
                .flatMapToDouble(p -> java.util.Arrays.stream(Tensors.toDoubles(p.grad())))
                .toArray();
        assertEquals(
                norm / 2,
                Math.sqrt(java.util.Arrays.stream(clipped).map(g -> g * g).sum()),
                1e-5 * norm);
        assertTrue(scaler.step(optimizer));
        assertEquals(
                clipped[0], parameters.get("a").grad().view(-1).select(0, 0).item_float(), "not unscaled again");
        scaler.update();
    }

    @Test
    void clippingDoesNotHideAnOverflow() {
        backward(parameters, scaler);
        overwrite(parameters.get("a"), Double.POSITIVE_INFINITY);
        scaler.unscale(optimizer);
        GradientClipping.clipByGlobalNorm(parameters.values(), 1);
        double[] before = values(parameters);
        assertFalse(scaler.step(optimizer));
        assertArrayEquals(before, values(parameters));
    }

    @Test
    void anOverflowOfOneOptimizerShrinksTheScaleAndLetsTheOtherStep() {
        Map<String, Tensor> others = Map.of("c", torch.randn(4).set_requires_grad(true));
        try (var other = new AdamW(others, AdamWSettings.of(0.1))) {
            for (boolean isOfOther : new boolean[] {false, true}) {
                double scale = scaler.scale();
                optimizer.zeroGrad();
                other.zeroGrad();
                backward(parameters, scaler);
                backward(others, scaler);
                overwrite(isOfOther ? others.get("c") : parameters.get("a"), Double.NaN);
                assertEquals(isOfOther, scaler.step(optimizer));
                assertEquals(!isOfOther, scaler.step(other));
                scaler.update();
                assertEquals(scale / 4, scaler.scale());
            }
        }
    }

    @Test
    void aGradientBelowTheRangeOfFp16ReachesTheParameterOnlyWithAScale() {
        Tensor w = torch.ones(1, 1).set_requires_grad(true);
        Tensor x = torch.ones(1, 1);
        try (var sgd = new Sgd(Map.of("w", w), 1, 0);
                var usual = new GradScaler(cpu)) {
            for (GradScaler s : List.of(GradScaler.disabled(), usual)) {
                Tensor loss;
                try (var autocast = Autocast.of(cpu, DType.FLOAT16)) {
                    loss = x.matmul(w)
                            .to(ScalarType.Float)
                            .mul(new Scalar(1e-8))
                            .sum();
                }
                s.scale(loss).backward();
                s.unscale(sgd);
                double expected = s == usual ? 1e-8 : 0;
                assertEquals(expected, w.grad().item_float(), 1e-11);
                sgd.zeroGrad();
            }
        }
    }

    @Test
    void stateSavedWithParametersIsRestored(@TempDir Path folder) throws IOException {
        goodStep();
        goodStep();
        goodStep();
        goodStep();
        Path file = folder.resolve("step.safetensors");
        Map<String, Tensor> saved = new LinkedHashMap<>(parameters);
        saved.putAll(scaler.state());
        Checkpoint.save(file, saved, optimizer, Map.of());
        try (var again = new GradScaler(cpu, OPTIONS);
                var opened = Safetensors.open(file)) {
            Map<String, Tensor> state = new LinkedHashMap<>();
            for (String name : scaler.state().keySet()) {
                state.put(name, opened.tensor(name, cpu));
            }
            again.loadState(state);
            assertEquals(4 * SCALE, again.scale());
            assertEquals(1, again.state().get("scaler.growth_tracker").item_int());
        }
        try (var again = new GradScaler(cpu, OPTIONS)) {
            Map<String, Tensor> into = new LinkedHashMap<>(parameters);
            into.putAll(again.state());
            Checkpoint.load(file, into, optimizer);
            assertEquals(4 * SCALE, again.scale());
        }
    }

    @Test
    void stateWithOtherNamesOrShapesIsRefused() {
        var missing = assertThrows(IllegalArgumentException.class, () -> scaler.loadState(Map.of()));
        assertEquals(
                "the state must have the entries [scaler.scale, scaler.growth_tracker], not []", missing.getMessage());
        Map<String, Tensor> wrong = new LinkedHashMap<>(scaler.state());
        wrong.put("scaler.scale", torch.ones(2));
        var shape = assertThrows(IllegalArgumentException.class, () -> scaler.loadState(wrong));
        assertEquals("scaler.scale must be a 0-dimensional fp32", shape.getMessage());
    }

    @ParameterizedTest
    @CsvSource({"0, 0", "-8, 0", "NaN, 0", "Infinity, 0", "8, -1", "8, 3"})
    void stateWithValuesThatNoScalerHasIsRefusedAndChangesNothing(float scale, int steps) {
        goodStep();
        Map<String, Tensor> state = state(scale, steps);
        assertThrows(IllegalArgumentException.class, () -> scaler.loadState(state));
        assertEquals(SCALE, scaler.scale());
        assertEquals(1, scaler.state().get("scaler.growth_tracker").item_int());
    }

    @Test
    void theLargestCountBelowTheIntervalIsLoadedAndTheNextStepGrows() {
        scaler.loadState(state(8, 2));
        goodStep();
        assertEquals(32, scaler.scale());
    }

    private static Map<String, Tensor> state(float scale, int steps) {
        return Map.of(
                "scaler.scale", torch.scalar_tensor(new Scalar(scale)),
                "scaler.growth_tracker", torch.scalar_tensor(new Scalar(steps)).to(ScalarType.Int));
    }

    @Test
    void callsOutOfOrderAreRefused() {
        assertEquals(
                "call step() or unscale() before update()",
                assertThrows(IllegalStateException.class, scaler::update).getMessage());
        assertEquals(
                "no parameter of this optimizer has a gradient",
                assertThrows(IllegalStateException.class, () -> scaler.step(optimizer))
                        .getMessage());
        backward(parameters, scaler);
        scaler.unscale(optimizer);
        assertEquals(
                "the gradients of this optimizer are already unscaled; call update() first",
                assertThrows(IllegalStateException.class, () -> scaler.unscale(optimizer))
                        .getMessage());
        scaler.step(optimizer);
        assertEquals(
                "step() was already called for this optimizer; call update() first",
                assertThrows(IllegalStateException.class, () -> scaler.step(optimizer))
                        .getMessage());
    }

    @Test
    void gradientsInFp16AndLossesOfIntegersAreRefused() {
        Tensor w = torch.ones(2).to(ScalarType.Half).set_requires_grad(true);
        w.mutable_grad().put(torch.ones(2).to(ScalarType.Half));
        try (var sgd = new Sgd(Map.of("w", w), 1, 0)) {
            var fp16 = assertThrows(IllegalArgumentException.class, () -> scaler.unscale(sgd));
            assertTrue(fp16.getMessage().startsWith("the gradient of w is fp16"), fp16.getMessage());
        }
        var integer = assertThrows(
                IllegalArgumentException.class, () -> scaler.scale(torch.ones(1).to(ScalarType.Long)));
        assertEquals("loss must be floating-point, not int64", integer.getMessage());
    }

    @ParameterizedTest
    @ValueSource(doubles = {0, -1, Double.NaN, Double.POSITIVE_INFINITY, 1e39, 1e-50})
    void invalidInitialScalesAreRefused(double scale) {
        var error = assertThrows(IllegalArgumentException.class, () -> new GradScalerSettings(scale, 2, 0.5, 1));
        assertEquals("initialScale must be above 0 and finite in fp32, not " + scale, error.getMessage());
    }

    @Test
    void factorsWithoutEffectAreRefused() {
        assertThrows(IllegalArgumentException.class, () -> new GradScalerSettings(1, 1, 0.5, 1));
        assertThrows(IllegalArgumentException.class, () -> new GradScalerSettings(1, 2, 1, 1));
        assertThrows(IllegalArgumentException.class, () -> new GradScalerSettings(1, 2, 0.5, 0));
    }

    static final class ScaledSteps implements MemoryGrowth.Work {
        private final GradScaler scaler = new GradScaler(Device.cpu(), OPTIONS);
        private final Tensor large = torch.zeros(100_000).set_requires_grad(true);
        private final Sgd sgd = new Sgd(Map.of("large", large), 0.1, 0);

        @Override
        public void step() {
            try (var step = MemoryScope.open()) {
                scaler.scale(large.sum()).backward();
                scaler.step(sgd);
                scaler.update();
                sgd.zeroGrad();
            }
        }
    }

    @Test
    void stepsDoNotLeakMemory() throws Exception {
        MemoryGrowth.assertFlat(ScaledSteps.class, 100, 150);
    }

    @Test
    @Tag("gpu")
    void overflowAndGrowthAreTheSameOnTheGpu() {
        Device gpu = Device.cuda(0);
        Map<String, Tensor> there = parameters(gpu);
        try (var adam = new AdamW(there, AdamWSettings.of(0.1));
                var s = new GradScaler(gpu, OPTIONS)) {
            for (int t = 0; t < 3; t++) {
                adam.zeroGrad();
                backward(there, s);
                assertTrue(s.step(adam));
                s.update();
            }
            assertEquals(4 * SCALE, s.scale());
            double[] before = values(there);
            adam.zeroGrad();
            backward(there, s);
            overwrite(there.get("a"), Double.POSITIVE_INFINITY);
            assertFalse(s.step(adam));
            s.update();
            assertEquals(SCALE, s.scale());
            assertArrayEquals(before, values(there));
        }
    }
}
