package cs336.basics;

import static cs336.basics.Reference.FLOAT32_ULP;
import static cs336.basics.Reference.FLOAT64;
import static cs336.basics.Reference.assertAllClose;
import static cs336.basics.Reference.assertClose;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.MemoryGrowth;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.ScopedTest;
import cs336.torch.TensorJson;
import cs336.torch.Torch;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

class AdamWTest extends ScopedTest {
    private static final AdamWSettings OPTIONS =
            AdamWSettings.of(1e-2).withBetas(0.9, 0.95).withWeightDecay(0.1);

    @BeforeEach
    void open() {
        Torch.seed(1);
    }

    static AdamWSettings options(TensorJson json, AdamW.Order order) {
        return new AdamWSettings(
                json.get("lr").number(),
                json.get("beta1").number(),
                json.get("beta2").number(),
                json.has("eps") ? json.get("eps").number() : 0,
                json.get("weight_decay").number(),
                order);
    }

    @ParameterizedTest(name = "{0}, plain operations: {1}")
    @CsvSource({"FLOAT64, false", "FLOAT64, true", "FLOAT32, false", "FLOAT32, true"})
    void everyOrderAndEpsMatchesTheReferenceAtEveryStep(DType dtype, boolean plainOperations) {
        TensorJson reference = Reference.read("parts.json").get("adamw");
        List<TensorJson> gradients = reference.get("gradients").list();
        List<TensorJson> runs = reference.get("runs").list();
        assertEquals(6, runs.size());
        double tolerance = dtype == DType.FLOAT64 ? FLOAT64 : 4 * FLOAT32_ULP;
        for (TensorJson run : runs) {
            AdamW.Order order = AdamW.Order.valueOf(run.get("order").text().toUpperCase());
            AdamWSettings options = options(reference.get("options"), order)
                    .withEps(run.get("eps").number());
            Map<String, Tensor> parameters = leaves(reference.get("parameters").tensors(), dtype);
            var fused = new AdamW(parameters, options);
            var plain = new PlainAdamW(parameters, options);
            List<TensorJson> after = run.get("parameters_after_step").list();
            for (int t = 0; t < after.size(); t++) {
                setGradients(parameters, gradients.get(t).tensors());
                if (plainOperations) {
                    plain.step();
                } else {
                    fused.step();
                }
                assertAllClose(tolerance, options + " step " + t, after.get(t).tensors(), parameters);
            }
            run.get("m")
                    .tensors()
                    .forEach((name, m) -> assertClose(
                            tolerance,
                            "m of " + name,
                            m,
                            plainOperations
                                    ? plain.m(name)
                                    : fused.states().get(name).m()));
            run.get("v")
                    .tensors()
                    .forEach((name, v) -> assertClose(
                            tolerance,
                            "v of " + name,
                            v,
                            plainOperations
                                    ? plain.v(name)
                                    : fused.states().get(name).v()));
        }
    }

    @ParameterizedTest
    @EnumSource(AdamW.Order.class)
    void kernelAndPlainOperationsAgreeOnRandomData(AdamW.Order order) {
        AdamWSettings options = OPTIONS.withOrder(order).withEps(1e-3);
        for (DType dtype : List.of(DType.FLOAT64, DType.FLOAT32)) {
            Map<String, Tensor> plain = leaves(random(), dtype);
            Map<String, Tensor> fused = leaves(plain, dtype);
            var plainOptimizer = new PlainAdamW(plain, options);
            var fusedOptimizer = new AdamW(fused, options);
            for (int t = 0; t < 10; t++) {
                Map<String, Tensor> gradients = random();
                setGradients(plain, gradients);
                setGradients(fused, gradients);
                plainOptimizer.setLearningRate(0.1 / (t + 1));
                fusedOptimizer.setLearningRate(0.1 / (t + 1));
                plainOptimizer.step();
                fusedOptimizer.step();
            }
            assertAllClose(dtype == DType.FLOAT64 ? 1e-14 : 4 * FLOAT32_ULP, order + " " + dtype, plain, fused);
        }
    }

    @Tag("gpu")
    @ParameterizedTest
    @EnumSource(AdamW.Order.class)
    void kernelOnTheGpuMatchesPlainOperationsOnTheCpu(AdamW.Order order) {
        AdamWSettings options = OPTIONS.withOrder(order).withEps(1e-3);
        Map<String, Tensor> cpu = leaves(random(), DType.FLOAT64);
        Map<String, Tensor> gpu = new LinkedHashMap<>();
        cpu.forEach((name, tensor) -> gpu.put(
                name,
                tensor.detach()
                        .to(Device.cuda(0).toTorch(), torch.ScalarType.Double)
                        .set_requires_grad(true)));
        var cpuOptimizer = new PlainAdamW(cpu, options);
        var gpuOptimizer = new AdamW(gpu, options);
        for (int t = 0; t < 10; t++) {
            Map<String, Tensor> gradients = random();
            setGradients(cpu, gradients);
            gradients.forEach((name, gradient) ->
                    gpu.get(name).mutable_grad().put(gradient.to(Device.cuda(0).toTorch(), gradient.scalar_type())));
            Tensor norm = GradientClipping.clipByGlobalNorm(cpu.values(), 1);
            assertClose(FLOAT64, "norm", norm, GradientClipping.clipByGlobalNorm(gpu.values(), 1));
            cpuOptimizer.step();
            gpuOptimizer.step();
        }
        assertAllClose(FLOAT64, order.toString(), cpu, gpu);
    }

    @Test
    void theThreeOrdersDiffer() {
        Map<String, Tensor> start = random();
        Map<String, Tensor> gradients = random();
        Tensor[] results = new Tensor[3];
        for (AdamW.Order order : AdamW.Order.values()) {
            Map<String, Tensor> parameters = leaves(start, DType.FLOAT64);
            setGradients(parameters, gradients);
            new AdamW(parameters, OPTIONS.withOrder(order).withEps(1e-2)).step();
            results[order.ordinal()] = parameters.get("a");
        }
        assertTrue(Reference.error(results[0], results[1]) > 1e-6);
        assertTrue(Reference.error(results[1], results[2]) > 1e-6);
    }

    @Test
    void parametersWithoutGradientAndFrozenOnesDoNotChange() {
        Map<String, Tensor> parameters = leaves(random(), DType.FLOAT64);
        Map<String, Tensor> before = leaves(parameters, DType.FLOAT64);
        var optimizer = new AdamW(parameters, OPTIONS);
        setGradients(parameters, random());
        parameters.get("a").mutable_grad().reset();
        parameters.get("b").set_requires_grad(false);
        optimizer.step();
        assertTrue(torch.equal(before.get("a"), parameters.get("a")));
        assertTrue(torch.equal(before.get("b"), parameters.get("b")));
        assertFalse(torch.equal(before.get("c"), parameters.get("c")));
        assertEquals(0, optimizer.states().get("a").step());
        assertNull(optimizer.states().get("a").m());
        assertEquals(1, optimizer.states().get("c").step());
    }

    /** Bias correction uses the step count of each parameter. */
    @Test
    void parametersWithDifferentStepCountsMatchThePlainOperations() {
        Map<String, Tensor> plain = leaves(random(), DType.FLOAT64);
        Map<String, Tensor> fused = leaves(plain, DType.FLOAT64);
        var plainOptimizer = new PlainAdamW(plain, OPTIONS);
        var fusedOptimizer = new AdamW(fused, OPTIONS);
        for (int t = 0; t < 6; t++) {
            Map<String, Tensor> gradients = random();
            setGradients(plain, gradients);
            setGradients(fused, gradients);
            for (String missing : t < 2 ? List.of("a") : t == 4 ? List.of("b", "c") : List.<String>of()) {
                plain.get(missing).mutable_grad().reset();
                fused.get(missing).mutable_grad().reset();
            }
            plainOptimizer.step();
            fusedOptimizer.step();
        }
        assertEquals(4, fusedOptimizer.states().get("a").step());
        assertEquals(5, fusedOptimizer.states().get("b").step());
        assertAllClose(1e-14, "parameter", plain, fused);
    }

    @Test
    void gradientsMayBeTransposed() {
        Tensor initial = torch.randn(5, 7);
        Tensor first = initial.clone().set_requires_grad(true);
        Tensor second = initial.clone().set_requires_grad(true);
        try (var transposed = new AdamW(Map.of("w", first), OPTIONS);
                var contiguous = new AdamW(Map.of("w", second), OPTIONS)) {
            for (int i = 0; i < 3; i++) {
                Tensor gradient = torch.randn(7, 5).t();
                first.mutable_grad().put(gradient);
                second.mutable_grad().put(gradient.contiguous());
                transposed.step();
                contiguous.step();
                assertTrue(first.equal(second));
            }
        }
    }

    @Test
    void stepWithoutAnyGradientDoesNothing() {
        Map<String, Tensor> parameters = leaves(random(), DType.FLOAT64);
        var optimizer = new AdamW(parameters, OPTIONS);
        optimizer.step();
        assertTrue(optimizer.state().isEmpty());
    }

    @Test
    void parameterGroupsHaveTheirOwnSettings() {
        Map<String, Tensor> all = random();
        Map<String, Tensor> decayed = leaves(Map.of("a", all.get("a")), DType.FLOAT64);
        Map<String, Tensor> undecayed = leaves(Map.of("b", all.get("b")), DType.FLOAT64);
        var optimizer = new AdamW(decayed, OPTIONS);
        optimizer.add(undecayed, OPTIONS.withWeightDecay(0));
        assertEquals(List.of("a", "b"), List.copyOf(optimizer.parameters().keySet()));
        optimizer.setLearningRate(1);
        // With zero gradients only weight decay acts.
        setGradients(decayed, Map.of("a", torch.zeros_like(all.get("a"))));
        setGradients(undecayed, Map.of("b", torch.zeros_like(all.get("b"))));
        optimizer.step();
        assertClose(1e-15, "a", all.get("a").mul(new Scalar(0.9)), decayed.get("a"));
        assertTrue(torch.equal(all.get("b"), undecayed.get("b")));
        assertThrows(IllegalArgumentException.class, () -> optimizer.add(undecayed, OPTIONS));
    }

    @Test
    void parameterGroupsHaveTheirOwnLearningRates() {
        Map<String, Tensor> all = random();
        Map<String, Tensor> first = leaves(Map.of("a", all.get("a")), DType.FLOAT64);
        Map<String, Tensor> second = leaves(Map.of("b", all.get("b")), DType.FLOAT64);
        var optimizer = new AdamW(first, OPTIONS);
        optimizer.add(second, OPTIONS);
        optimizer.setLearningRate(1, 1);
        assertEquals(OPTIONS.learningRate(), optimizer.learningRate());
        assertThrows(IllegalArgumentException.class, () -> optimizer.setLearningRate(1, -1));
        assertThrows(IndexOutOfBoundsException.class, () -> optimizer.setLearningRate(2, 1));
        setGradients(first, Map.of("a", torch.zeros_like(all.get("a"))));
        setGradients(second, Map.of("b", torch.zeros_like(all.get("b"))));
        optimizer.step();
        double decay = OPTIONS.weightDecay();
        assertClose(1e-15, "a", all.get("a").mul(new Scalar(1 - OPTIONS.learningRate() * decay)), first.get("a"));
        assertClose(1e-15, "b", all.get("b").mul(new Scalar(1 - decay)), second.get("b"));
    }

    @Test
    void aClosedOptimizerHasNoLearningRateToSet() {
        var optimizer = new AdamW(leaves(random(), DType.FLOAT64), OPTIONS);
        optimizer.close();
        assertThrows(IllegalStateException.class, () -> optimizer.setLearningRate(0.1));
        assertThrows(IllegalStateException.class, () -> optimizer.setLearningRate(0, 0.1));
    }

    @Test
    void aRefusedSettingChangesNothing() {
        Map<String, Tensor> all = random();
        Map<String, Tensor> undecayed = leaves(Map.of("a", all.get("a")), DType.FLOAT64);
        var optimizer = new AdamW(undecayed, OPTIONS.withWeightDecay(0));
        optimizer.add(leaves(Map.of("b", all.get("b")), DType.FLOAT64), OPTIONS.withWeightDecay(1));
        double before = optimizer.learningRate();
        assertThrows(IllegalArgumentException.class, () -> optimizer.setLearningRate(2)); // decays by 2
        assertEquals(before, optimizer.learningRate());

        setGradients(undecayed, Map.of("a", torch.ones_like(all.get("a"))));
        assertThrows(IllegalArgumentException.class, () -> optimizer.step(torch.ones(2)));
        for (DType dtype : new DType[] {DType.BFLOAT16, DType.FLOAT16, DType.INT64}) {
            Tensor factor = torch.ones(new long[0], Device.cpu().options(dtype));
            assertThrows(IllegalArgumentException.class, () -> optimizer.step(factor), dtype::toString);
        }
        assertTrue(optimizer.state().isEmpty());
    }

    @Test
    void zeroGradLeavesGradientsUndefined() {
        Map<String, Tensor> parameters = leaves(random(), DType.FLOAT64);
        setGradients(parameters, random());
        new AdamW(parameters, OPTIONS).zeroGrad();
        parameters.values().forEach(parameter -> assertFalse(parameter.grad().defined()));
    }

    @Test
    void trainingFromALoadedStateEqualsUninterruptedTraining() {
        Map<String, Tensor> parameters = leaves(random(), DType.FLOAT64);
        List<Map<String, Tensor>> gradients = List.of(random(), random(), random());
        var optimizer = new AdamW(parameters, OPTIONS);
        setGradients(parameters, gradients.get(0));
        optimizer.step();
        setGradients(parameters, gradients.get(1));
        parameters.get("b").mutable_grad().reset();
        optimizer.step();

        Map<String, Tensor> resumed = leaves(parameters, DType.FLOAT64);
        var resumedOptimizer = new AdamW(resumed, OPTIONS);
        setGradients(resumed, gradients.get(2));
        resumedOptimizer.step(); // creates a state for loadState to replace
        resumed.forEach((name, tensor) -> copy(tensor, parameters.get(name)));
        resumedOptimizer.loadState(optimizer.state());
        setGradients(parameters, gradients.get(2));
        optimizer.step();
        setGradients(resumed, gradients.get(2));
        resumedOptimizer.step();
        parameters.forEach((name, tensor) -> assertTrue(torch.equal(tensor, resumed.get(name)), name));
        assertEquals(2, resumedOptimizer.states().get("b").step());
    }

    @Test
    void stateThatDoesNotMatchIsRefusedAndChangesNothing() {
        Map<String, Tensor> parameters = leaves(random(), DType.FLOAT64);
        var optimizer = new AdamW(parameters, OPTIONS);
        setGradients(parameters, random());
        optimizer.step();
        Map<String, Tensor> good = optimizer.state();

        assertRefused(optimizer, with(good, "x.m", good.get("a.m")), "x.m");
        assertRefused(optimizer, with(good, "a.m", good.get("b.m")), "state a.m is fp64[2, 3]");
        assertRefused(optimizer, with(good, "a.v", good.get("a.v").to(torch.ScalarType.Float)), "state a.v is fp32");
        assertRefused(optimizer, with(good, "a.step", torch.tensor(0L)), "a.step");
        assertRefused(optimizer, with(good, "a.v", null), "state of a is incomplete");
        assertEquals(1, optimizer.states().get("a").step());
    }

    private static Map<String, Tensor> with(Map<String, Tensor> state, String name, Tensor tensor) {
        Map<String, Tensor> changed = new LinkedHashMap<>(state);
        if (tensor == null) {
            changed.remove(name);
        } else {
            changed.put(name, tensor);
        }
        return changed;
    }

    private static void assertRefused(AdamW optimizer, Map<String, Tensor> state, String message) {
        var error = assertThrows(IllegalArgumentException.class, () -> optimizer.loadState(state));
        assertTrue(error.getMessage().contains(message), error.getMessage());
    }

    @Test
    void settingsOutOfRangeAreNamed() {
        assertNames("learningRate", () -> AdamWSettings.of(-1));
        assertNames("learningRate", () -> AdamWSettings.of(Double.NaN));
        assertNames("beta1", () -> OPTIONS.withBetas(1, 0.5));
        assertNames("beta2", () -> OPTIONS.withBetas(0.5, -0.1));
        assertNames("eps", () -> OPTIONS.withEps(Double.POSITIVE_INFINITY));
        assertNames("weightDecay", () -> OPTIONS.withWeightDecay(-1));
        assertNames("learningRate 10.0 times weightDecay 0.1", () -> OPTIONS.withLearningRate(10));
        assertNames("order", () -> OPTIONS.withOrder(null));
        assertNames("parameter ids", () -> new AdamW(Map.of("ids", torch.tensor(1L)), OPTIONS));
        assertNames("parameter w", () -> new AdamW(Map.of("w", torch.ones(2, 3).t()), OPTIONS));
    }

    private static void assertNames(String argument, org.junit.jupiter.api.function.Executable call) {
        var error = assertThrows(IllegalArgumentException.class, call);
        assertTrue(error.getMessage().startsWith(argument), error.getMessage());
    }

    /** The optimizer state survives the scope in which the optimizer was built. */
    static final class ClippedSteps implements MemoryGrowth.Work {
        private final AdamW optimizer;

        ClippedSteps() {
            try (var built = MemoryScope.open()) {
                Map<String, Tensor> parameters = new LinkedHashMap<>();
                for (int i = 0; i < 2; i++) {
                    parameters.put("w" + i, torch.randn(256, 256).set_requires_grad(true));
                }
                optimizer = new AdamW(parameters, OPTIONS);
            }
        }

        @Override
        public void step() {
            clippedStep(optimizer);
        }
    }

    @Test
    void aThousandStepsDoNotLeakMemory() throws Exception {
        MemoryGrowth.assertFlat(ClippedSteps.class, 125, 150);
    }

    private static void clippedStep(AdamW optimizer) {
        try (var step = MemoryScope.open()) {
            optimizer.zeroGrad();
            optimizer.parameters().values().forEach(w -> w.mul(w).sum().backward());
            GradientClipping.clipByGlobalNorm(optimizer.parameters().values(), 1);
            optimizer.step();
        }
    }

    private static Map<String, Tensor> random() {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        tensors.put("a", torch.randn(37, 5).to(torch.ScalarType.Double));
        tensors.put("b", torch.randn(2, 3).to(torch.ScalarType.Double));
        tensors.put("c", torch.randn(70_001).to(torch.ScalarType.Double));
        return tensors;
    }

    static Map<String, Tensor> leaves(Map<String, Tensor> values, DType dtype) {
        Map<String, Tensor> leaves = new LinkedHashMap<>();
        values.forEach((name, value) ->
                leaves.put(name, value.detach().to(dtype.scalarType()).clone().set_requires_grad(true)));
        return leaves;
    }

    static void setGradients(Map<String, Tensor> parameters, Map<String, Tensor> gradients) {
        gradients.forEach((name, gradient) -> {
            Tensor parameter = parameters.get(name);
            parameter.mutable_grad().put(gradient.to(parameter.scalar_type()).clone());
        });
    }

    private static void copy(Tensor target, Tensor source) {
        try (var noGrad = NoGrad.open()) {
            target.copy_(source);
        }
    }

    @Test
    void narrowGradientsAFactorAndCopiesGiveTheSameParameters() {
        try (var noGrad = NoGrad.open()) {
            Tensor initial = torch.randn(5, 7);
            Map<String, Tensor> narrow = Map.of("w", initial.clone().set_requires_grad(true));
            Map<String, Tensor> wide = Map.of("w", initial.clone().set_requires_grad(true));
            try (var first = new AdamW(narrow, OPTIONS);
                    var second = new AdamW(wide, OPTIONS)) {
                Tensor copy =
                        first.copies(List.of("w"), DType.BFLOAT16).orElseThrow().get(0);
                assertTrue(copy.equal(initial.to(DType.BFLOAT16.scalarType())));
                for (int i = 0; i < 3; i++) {
                    Tensor factor = torch.rand(new long[0]);
                    Tensor gradient = torch.randn(5, 7).to(DType.BFLOAT16.scalarType());
                    narrow.get("w").mutable_grad().put(gradient);
                    wide.get("w")
                            .mutable_grad()
                            .put(gradient.to(DType.FLOAT32.scalarType()).mul(factor));
                    first.step(factor);
                    second.step();
                    assertTrue(narrow.get("w").equal(wide.get("w")));
                    assertTrue(copy.equal(wide.get("w").to(DType.BFLOAT16.scalarType())));
                }
                narrow.get("w").fill_(new Scalar(3.0));
                first.refreshCopies();
                assertEquals(3, copy.mean().item_double());
                assertEquals(Optional.empty(), first.copies(List.of("w"), DType.FLOAT16), "there is a bf16 copy");
                assertThrows(IllegalArgumentException.class, () -> first.copies(List.of("w"), DType.FLOAT64));
                assertThrows(IllegalArgumentException.class, () -> first.copies(List.of("b"), DType.BFLOAT16));
            }
        }
    }

    @Test
    void noCopyIsMadeIfAnotherParameterHasOneInAnotherDtype() {
        try (var scope = MemoryScope.open();
                var optimizer = new AdamW(Map.of("w", torch.randn(5, 7), "v", torch.randn(7)), OPTIONS)) {
            optimizer.copies(List.of("w"), DType.BFLOAT16).orElseThrow();
            assertEquals(Optional.empty(), optimizer.copies(List.of("v", "w"), DType.FLOAT16));
            assertTrue(optimizer.copies(List.of("v"), DType.BFLOAT16).isPresent());
        }
    }

    @Test
    void copiesMadeBetweenStepsAreUpdatedByTheNextStep() {
        try (var noGrad = NoGrad.open()) {
            Map<String, Tensor> parameters = Map.of("w", torch.randn(5, 7).set_requires_grad(true));
            Tensor w = parameters.get("w");
            try (var optimizer = new AdamW(parameters, OPTIONS)) {
                w.mutable_grad().put(torch.randn(5, 7));
                optimizer.step();
                Tensor copy = optimizer
                        .copies(List.of("w"), DType.BFLOAT16)
                        .orElseThrow()
                        .get(0);
                for (int i = 0; i < 2; i++) {
                    Tensor before = copy.clone();
                    w.mutable_grad().put(torch.randn(5, 7));
                    optimizer.step();
                    assertFalse(copy.equal(before));
                    assertTrue(copy.equal(w.to(DType.BFLOAT16.scalarType())));
                }
            }
        }
    }

    /** A backward pass accumulates no gradient in it, so that no step would change it. */
    @Test
    void autogradNoticesAStep() {
        try (var scope = MemoryScope.open()) {
            Tensor w = torch.ones(3).set_requires_grad(true);
            Tensor y = w.square().sum();
            try (var optimizer = new AdamW(Map.of("w", w), OPTIONS)) {
                w.mutable_grad().put(torch.ones(3));
                optimizer.step();
            }
            String message = assertThrows(RuntimeException.class, y::backward).getMessage();
            assertTrue(message.contains("modified by an inplace operation"), message);
        }
    }

    @Test
    void aComputedTensorIsRefused() {
        try (var scope = MemoryScope.open()) {
            Tensor computed = torch.randn(3).set_requires_grad(true).mul(new Scalar(2.0));
            for (Executable create : List.<Executable>of(
                    () -> new AdamW(Map.of("w", computed), AdamWSettings.of(0.1)),
                    () -> new Sgd(Map.of("w", computed), 0.1, 0))) {
                var e = assertThrows(IllegalArgumentException.class, create);
                assertTrue(e.getMessage().startsWith("parameter w must be a leaf"), e.getMessage());
            }
            new AdamW(Map.of("w", computed.detach()), AdamWSettings.of(0.1)).close();
        }
    }

    @Test
    void oneTensorUnderTwoNamesIsRefused() {
        try (var scope = MemoryScope.open()) {
            Tensor shared = torch.ones(3);
            var twice = new LinkedHashMap<String, Tensor>();
            twice.put("a", shared);
            twice.put("b", new Tensor(shared));
            for (Executable create :
                    List.<Executable>of(() -> new AdamW(twice, AdamWSettings.of(0.1)), () -> new Sgd(twice, 0.1, 0))) {
                var e = assertThrows(IllegalArgumentException.class, create);
                assertEquals("parameters a and b are the same tensor", e.getMessage());
            }
            try (var optimizer = new AdamW(Map.of("a", shared), AdamWSettings.of(0.1))) {
                assertThrows(
                        IllegalArgumentException.class,
                        () -> optimizer.add(Map.of("b", shared), AdamWSettings.of(0.1)));
                assertEquals(Set.of("a"), optimizer.parameters().keySet());
            }
        }
    }
}
