package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.GradientClipping;
import cs336.basics.Linear;
import cs336.basics.NnModule;
import cs336.basics.Optimizer;
import cs336.basics.Sgd;
import cs336.basics.TinyConfig;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Precision;
import cs336.checkpointing.CheckpointPolicy;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.ReservedPort;
import cs336.distributed.collectives.World;
import cs336.distributed.training.DistributedDataParallel;
import cs336.distributed.training.Strategy;
import cs336.torch.Autocast;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.BinaryOperator;
import java.util.stream.Collectors;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class CompiledStepTest {
    private static final TransformerConfig CONFIG = TinyConfig.create();

    @Test
    void stepsOnTheCpuEqualThoseOfThePlainLoop() {
        var runs = new ArrayList<TrainingRuns.LossesAndParameters>();
        for (TrainingRuns.Loop loop : TrainingRuns.Loop.values()) {
            runs.add(TrainingRuns.train(CONFIG, Device.cpu(), Precision.FP32, 1.0, loop, List.of(8, 16, 8, 8, 16)));
        }
        for (var run : runs) {
            assertArrayEquals(runs.get(0).losses(), run.losses());
            assertArrayEquals(runs.get(0).parameters(), run.parameters());
        }
    }

    @Test
    void stepsWithActivationCheckpointingEqualThoseOfThePlainLoop() {
        var expected = TrainingRuns.train(
                CONFIG, Device.cpu(), Precision.FP32, 1.0, TrainingRuns.Loop.PLAIN, List.of(8, 16, 8));
        TransformerConfig recomputed = CONFIG.withCheckpointing(CheckpointPolicy.recursive());
        for (TrainingRuns.Loop loop : TrainingRuns.Loop.values()) {
            var run = TrainingRuns.train(recomputed, Device.cpu(), Precision.FP32, 1.0, loop, List.of(8, 16, 8));
            assertArrayEquals(expected.losses(), run.losses());
            assertArrayEquals(expected.parameters(), run.parameters());
        }
    }

    @Test
    void activationsInHostMemoryAreRefused() {
        TransformerConfig offloaded = CONFIG.withCheckpointing(CheckpointPolicy.offloading(1));
        var refusal = assertThrows(
                IllegalStateException.class,
                () -> TrainingRuns.train(
                        offloaded, Device.cpu(), Precision.FP32, 1.0, TrainingRuns.Loop.FUSED, List.of(8)));
        assertTrue(refusal.getMessage().contains("activations in host memory cannot be part of a recorded step"));
    }

    @Test
    void fp16StepsSkipOverflowsLikeThePlainLoop() {
        List<Integer> contexts = List.of(8, 8, 16, 8, 8, 16, 8, 8);
        for (double loudness : new double[] {1, 60}) { // with 60 the gradients overflow until the scale has shrunk
            var runs = new ArrayList<TrainingRuns.LossesAndParameters>();
            for (TrainingRuns.Loop loop : TrainingRuns.Loop.values()) {
                runs.add(TrainingRuns.train(CONFIG, Device.cpu(), Precision.FP16, 1.0, loop, contexts, loudness));
            }
            assertTrue(loudness == 1 || runs.get(0).skipped() > 0, "no overflow");
            assertTrue(runs.get(0).skipped() < contexts.size(), "no update");
            for (var run : runs) {
                assertEquals(runs.get(0).skipped(), run.skipped());
                assertArrayEquals(runs.get(0).losses(), run.losses());
                assertArrayEquals(runs.get(0).parameters(), run.parameters());
            }
        }
    }

    @Test
    void onlyAStepThatKeepsItsAttentionStoresScores() {
        for (boolean isKept : new boolean[] {false, true}) {
            try (var scope = MemoryScope.open();
                    var model = new TransformerLM(CONFIG, Device.cpu());
                    var optimizer = new AdamW(model.namedParameters(), AdamWSettings.of(1e-3));
                    var step = CompiledStep.of(model, optimizer, Precision.FP32)) {
                Tensor ids = torch.randint(50, new long[] {1, 16}, Device.cpu().options(DType.INT64));
                step.fuseKeepingAttention();
                (isKept ? step : step.fuse()).run(ids, ids);
                String text = step.explain();
                String fused = text.substring(text.indexOf("fused:"));
                assertEquals(isKept, fused.contains("bmm("), fused);
                assertEquals(!isKept, fused.contains("flash_attention_backward("), fused);
            }
        }
    }

    @Test
    void aFusedStepHasAStageForEachOverlappingBucket(@TempDir Path folder) {
        try (var port = ReservedPort.any();
                var scope = MemoryScope.open();
                var group = ProcessGroup.join(
                        World.local(0, 1, port.number()),
                        CollectiveBackend.GLOO,
                        Duration.ofSeconds(60),
                        folder.resolve("store"));
                var model = new TransformerLM(CONFIG, Device.cpu());
                var ddp = new DistributedDataParallel(model, group, Strategy.bucketed(0.001));
                var optimizer = new AdamW(model.namedParameters(), AdamWSettings.of(1e-3));
                var step = CompiledStep.of(ddp, optimizer, Precision.FP32).fuse();
                var ofNorms = new AdamW(norms(model), AdamWSettings.of(1e-3));
                var stepOfNorms = CompiledStep.of(ddp, ofNorms, Precision.FP32).fuse()) {
            Tensor ids = Tensors.of(new long[] {1, 2, 3, 4}, 1, 4);
            step.run(ids, ids);
            assertTrue(step.stages() > 1, step.stages() + " stages");
            assertEquals(ddp.overlappingBuckets().size(), step.stages());
            stepOfNorms.run(ids, ids); // although the buckets have other parameters
        }
    }

    private static Map<String, Tensor> norms(TransformerLM model) {
        return model.namedParameters().entrySet().stream()
                .filter(parameter -> parameter.getKey().contains("ln"))
                .collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue));
    }

    /** The autocast of the caller, at the first step or later, does not change fp32 gradients. */
    @Test
    void theCallersAutocastDoesNotReachTheStep() {
        for (boolean isFused : new boolean[] {false, true}) {
            double[][] parameters = new double[2][];
            for (int i = 0; i < 2; i++) {
                Torch.seed(5);
                try (var scope = MemoryScope.open();
                        var model = new TransformerLM(CONFIG, Device.cpu());
                        var optimizer = new Sgd(model.namedParameters(), 0.1, 0);
                        var step = CompiledStep.of(model, optimizer, Precision.FP32)) {
                    if (isFused) {
                        step.fuse();
                    }
                    Tensor ids = Tensors.of(new long[] {1, 2, 3, 4}, 1, 4);
                    try (var autocast = Autocast.of(Device.cpu(), i == 0 ? DType.FLOAT32 : DType.BFLOAT16)) {
                        step.run(ids, ids);
                    }
                    parameters[i] = Tensors.toDoubles(model.parameters().get(1));
                }
            }
            assertArrayEquals(parameters[0], parameters[1]);
        }
    }

    @Test
    void wrongInputIsNamed() {
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(CONFIG, Device.cpu());
                var optimizer = new AdamW(model.namedParameters(), AdamWSettings.of(1e-3));
                var step = CompiledStep.of(model, optimizer, Precision.FP32)) {
            Tensor ids = Tensors.of(new long[] {1, 2, 3, 4}, 1, 4);
            Tensor fewer = Tensors.of(new long[] {1, 2}, 1, 2);
            Tensor floats = torch.zeros(new long[] {1, 4}, Device.cpu().options(DType.FLOAT32));
            assertEquals("targets must have the shape of inputs, [1, 4], not [1, 2]", message(step, ids, fewer));
            assertTrue(message(step, floats, ids).startsWith("inputs must be an int64 tensor"));
            assertTrue(message(step, ids, null).startsWith("targets must not be null"));
            Tensor negative = Tensors.of(new long[] {1, 2, -100, 4}, 1, 4);
            assertEquals(
                    "targets must be from 0 to 49, the last token of the vocabulary, not from -100 to 4",
                    message(step, ids, negative));
            assertTrue(message(step, ids.add(new Scalar(46)), ids).startsWith("inputs must be from 0 to 49"));
            assertThrows(IllegalArgumentException.class, () -> step.clip(0));
            assertThrows(IllegalArgumentException.class, () -> step.warmup(0));
            step.close();
            assertThrows(IllegalStateException.class, () -> step.run(ids, ids));
        }
    }

    @Test
    void settingsAreMadeBeforeTheFirstBatch() {
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(CONFIG, Device.cpu());
                var optimizer = new AdamW(model.namedParameters(), AdamWSettings.of(1e-3));
                var step = CompiledStep.of(model, optimizer, Precision.FP32)) {
            Tensor ids = Tensors.of(new long[] {1, 2, 3, 4}, 1, 4);
            step.run(ids, ids);
            step.clip(1).run(ids, ids);
            for (Executable setting : List.<Executable>of(
                    step::fuse, step::fuseKeepingAttention, () -> step.lossRows(2), () -> step.warmup(1))) {
                String message =
                        assertThrows(IllegalStateException.class, setting).getMessage();
                assertTrue(message.endsWith("() must be called before the first batch"), message);
            }
        }
    }

    @Test
    void theTrainableParametersStayTheSameWhileGradientsAreSummed() {
        for (boolean isFused : new boolean[] {false, true}) {
            try (var scope = MemoryScope.open();
                    var model = new TransformerLM(CONFIG, Device.cpu());
                    var optimizer = new AdamW(model.namedParameters(), AdamWSettings.of(1e-3));
                    var step = CompiledStep.of(model, optimizer, Precision.FP32)) {
                Tensor ids = Tensors.of(new long[] {1, 2, 3, 4}, 1, 4);
                if (isFused) {
                    step.fuse();
                }
                step.accumulate(ids, ids);
                Tensor parameter = model.parameters().get(1);
                parameter.set_requires_grad(false);
                for (Executable call : List.<Executable>of(() -> step.run(ids, ids), () -> step.accumulate(ids, ids))) {
                    var error = assertThrows(IllegalStateException.class, call);
                    assertEquals(
                            "the parameters that require a gradient must not change between accumulate() and run()",
                            error.getMessage());
                }
                parameter.set_requires_grad(true);
                step.run(ids, ids);
                parameter.set_requires_grad(false);
                step.run(ids, ids);
            }
        }
    }

    @Test
    void theGradientOfSeveralBatchesIsTheirMean() {
        for (boolean isFused : new boolean[] {false, true}) {
            try (var scope = MemoryScope.open();
                    var module = new Perceptron(Device.cpu());
                    var plain = new Perceptron(Device.cpu());
                    var optimizer = new Sgd(module.namedParameters(), 1, 0);
                    var step = CompiledStep.of(module, CompiledStepTest::squaredError, optimizer, Precision.FP32)) {
                plain.load(module.stateDict());
                if (isFused) {
                    step.fuse();
                }
                for (int batches = 1; batches <= 3; batches++) {
                    for (int k = 1; k <= batches; k++) {
                        Tensor inputs = torch.randn(4, 5);
                        Tensor targets = torch.randn(4, 3);
                        squaredError(plain.forward(inputs), targets).backward();
                        if (k < batches) {
                            step.accumulate(inputs, targets);
                        } else {
                            step.run(inputs, targets);
                        }
                    }
                    for (int i = 0; i < plain.parameters().size(); i++) {
                        Tensor parameter = plain.parameters().get(i);
                        Tensor mean = parameter.grad().div(new Scalar(batches));
                        parameter.detach().sub_(mean);
                        parameter.mutable_grad().reset();
                        assertArrayEquals(
                                Tensors.toDoubles(parameter),
                                Tensors.toDoubles(module.parameters().get(i)),
                                1e-6);
                    }
                }
            }
        }
    }

    /** A module with inputs and targets of different shapes. */
    private static final class Perceptron extends NnModule {
        private final Linear first;
        private final Linear second;

        Perceptron(Device device) {
            first = child("first", new Linear(5, 7, device, DType.FLOAT32));
            second = child("second", new Linear(7, 3, device, DType.FLOAT32));
        }

        @Override
        protected Tensor compute(Tensor input) {
            return second.forward(first.forward(input).sigmoid());
        }
    }

    static Tensor squaredError(Tensor outputs, Tensor targets) {
        return outputs.sub(targets).square().mean();
    }

    @Test
    void stepsOfAnyModuleEqualThoseOfThePlainLoop() {
        assertArrayEquals(perceptron(null, Device.cpu()), perceptron(false, Device.cpu()));
        assertArrayEquals(perceptron(null, Device.cpu()), perceptron(true, Device.cpu()));
    }

    @Test
    @Tag("gpu")
    void stepsOfAnyModuleEqualThoseOfThePlainLoopOnAGpu() {
        Device gpu = Device.cuda(0);
        assertArrayEquals(perceptron(null, gpu), perceptron(false, gpu));
        assertArrayEquals(perceptron(null, gpu), perceptron(true, gpu), 1e-5);
    }

    /** Trains on a batch without a compiled step, and returns the loss. */
    static double plainStep(NnModule module, Optimizer optimizer, Tensor inputs, Tensor targets) {
        optimizer.zeroGrad();
        Tensor loss = squaredError(module.forward(inputs), targets);
        Backward.of(loss).run();
        optimizer.step();
        return loss.item_double();
    }

    /**
     * Trains on batches of different sizes.
     *
     * @param isFused whether the step is fused; null for a plain loop
     * @return the losses, then the weights of the first layer
     */
    private static double[] perceptron(Boolean isFused, Device device) {
        Torch.seed(4);
        List<Double> results = new ArrayList<>();
        try (var scope = MemoryScope.open();
                var tf32 = Torch.tf32(false); // for the plain loop
                var module = new Perceptron(device);
                var optimizer = new AdamW(module.namedParameters(), AdamWSettings.of(0.01));
                var step = CompiledStep.of(module, CompiledStepTest::squaredError, optimizer, Precision.FP32)) {
            if (Boolean.TRUE.equals(isFused)) {
                step.fuse();
            }
            for (int rows : new int[] {4, 6, 4, 4, 4, 6}) {
                Tensor inputs = torch.randn(new long[] {rows, 5}, device.options(DType.FLOAT32));
                Tensor targets = torch.randn(new long[] {rows, 3}, device.options(DType.FLOAT32));
                results.add(
                        isFused != null
                                ? step.run(inputs, targets).item_double()
                                : plainStep(module, optimizer, inputs, targets));
            }
            for (double weight : Tensors.toDoubles(module.parameters().get(0))) {
                results.add(weight);
            }
        }
        return results.stream().mapToDouble(Double::doubleValue).toArray();
    }

    @Test
    void eachShapeAndDtypeOfTheTargetsHasARecordingOfItsOwn() {
        try (var scope = MemoryScope.open();
                var module = new Perceptron(Device.cpu());
                var optimizer = new AdamW(module.namedParameters(), AdamWSettings.of(0.01));
                var step = CompiledStep.of(module, CompiledStepTest::squaredError, optimizer, Precision.FP32)) {
            Tensor inputs = torch.randn(4, 5);
            Tensor column = torch.rand(4, 1); // would be broadcast to [4, 3] and converted to int64
            Tensor[] differing = {
                torch.ones(new long[] {4, 3}, Device.cpu().options(DType.INT64)), torch.rand(4, 3), column
            };
            for (Tensor targets : differing) {
                double expected = squaredError(module.forward(inputs), targets).item_double();
                assertEquals(expected, step.run(inputs, targets).item_double());
            }
            assertEquals(3, step.stages());
        }
    }

    @Test
    void stridesOfTheFirstBatchDoNotReachTheModule() {
        try (var scope = MemoryScope.open();
                var module = new Perceptron(Device.cpu());
                var optimizer = new AdamW(module.namedParameters(), AdamWSettings.of(0.01));
                var step = CompiledStep.of(
                        module,
                        (outputs, targets) -> squaredError(outputs.view(12), targets.view(12)),
                        optimizer,
                        Precision.FP32)) {
            Tensor inputs = torch.randn(4, 5);
            Tensor transposed = torch.rand(3, 4).t();
            double expected = squaredError(module.forward(inputs), transposed).item_double();
            assertEquals(expected, step.run(inputs, transposed).item_double(), 1e-6);
            step.run(inputs, transposed.contiguous());
        }
    }

    /** Otherwise training would change nothing, without a sign of it. */
    @Test
    void anOptimizerOfAnotherModuleIsReported() {
        try (var scope = MemoryScope.open();
                var trained = new Linear(3, 2, true, Device.cpu(), DType.FLOAT32);
                var other = new Linear(3, 2, true, Device.cpu(), DType.FLOAT32);
                var optimizer = new Sgd(other.namedParameters(), 0.1, 0)) {
            for (boolean fused : new boolean[] {false, true}) {
                try (var step = CompiledStep.of(trained, (y, t) -> y.sub(t).sum(), optimizer, Precision.FP32)) {
                    if (fused) {
                        step.fuse();
                    }
                    var e = assertThrows(
                            IllegalStateException.class, () -> step.run(torch.randn(4, 3), torch.randn(4, 2)));
                    assertEquals(
                            "no parameter of the optimizer has a gradient: the loss must depend on one",
                            e.getMessage());
                }
            }
        }
    }

    @Test
    void aLossOfTheCallerIsChecked() {
        try (var scope = MemoryScope.open();
                var module = new Perceptron(Device.cpu());
                var optimizer = new AdamW(module.namedParameters(), AdamWSettings.of(0.01));
                var step = CompiledStep.of(module, Tensor::sub, optimizer, Precision.FP32)) {
            assertEquals(
                    "loss must return a 0-dimensional tensor, not one of the shape [4, 3]",
                    message(step, torch.randn(4, 5), torch.randn(4, 3)));
        }
        try (var scope = MemoryScope.open();
                var module = new Perceptron(Device.cpu());
                var optimizer = new AdamW(module.namedParameters(), AdamWSettings.of(0.01));
                var step = CompiledStep.of(module, (outputs, targets) -> null, optimizer, Precision.FP32)) {
            assertEquals("loss must not be null", message(step, torch.randn(4, 5), torch.randn(4, 3)));
        }
        try (var module = new Perceptron(Device.cpu());
                var optimizer = new AdamW(module.namedParameters(), AdamWSettings.of(0.01));
                var step = CompiledStep.of(module, CompiledStepTest::squaredError, optimizer, Precision.FP32)) {
            assertThrows(IllegalStateException.class, () -> step.lossRows(2));
        }
    }

    @ParameterizedTest
    @CsvSource({"FP32, false", "FP32, true", "TF32, false", "TF32, true"})
    void tf32IsAllowedOnlyDuringAStep(Precision precision, boolean outside) {
        var during = new ArrayList<Boolean>();
        BinaryOperator<Tensor> loss = (outputs, targets) -> {
            during.add(Torch.allowsTf32());
            return squaredError(outputs, targets);
        };
        try (var tf32 = Torch.tf32(outside);
                var scope = MemoryScope.open();
                var module = new Perceptron(Device.cpu());
                var optimizer = new Sgd(module.namedParameters(), 1, 0);
                var step = CompiledStep.of(module, loss, optimizer, precision)) {
            step.accumulate(torch.randn(4, 5), torch.randn(4, 3));
            assertEquals(outside, Torch.allowsTf32());
            step.run(torch.randn(4, 5), torch.randn(4, 3));
            assertEquals(outside, Torch.allowsTf32());
        }
        assertEquals(List.of(precision.tf32(), precision.tf32()), during);
    }

    @Test
    void clippingAFusedStepScalesTheGradientsOfFp16Only() {
        for (Precision precision : List.of(Precision.FP32, Precision.FP16)) {
            try (var scope = MemoryScope.open();
                    var module = new Perceptron(Device.cpu());
                    var optimizer = new AdamW(module.namedParameters(), AdamWSettings.of(0.01));
                    var step = CompiledStep.of(module, CompiledStepTest::squaredError, optimizer, precision)) {
                var tenth = new Scalar(0.1); // gradients that do not overflow in fp16 after loss scaling
                step.fuse()
                        .clip(1e-3)
                        .run(torch.randn(4, 5).mul(tenth), torch.randn(4, 3).mul(tenth));
                double norm = GradientClipping.norm(module.parameters()).item_double();
                assertEquals(precision == Precision.FP16, norm < 2e-3, "norm " + norm);
            }
        }
    }

    @Test
    void aClosedStepLeavesNoGradientsAndNoNativeObjects() {
        try (var all = MemoryScope.open();
                var module = new Perceptron(Device.cpu());
                var optimizer = new Sgd(module.namedParameters(), 1, 0)) {
            long before = 0;
            for (int i = 0; i < 40; i++) {
                before = i == 10 ? Pointer.totalCount() : before;
                try (var scope = MemoryScope.open()) {
                    try (var step =
                            CompiledStep.of(module, CompiledStepTest::squaredError, optimizer, Precision.FP16)) {
                        step.accumulate(torch.randn(4, 5), torch.randn(4, 3));
                    }
                    assertTrue(module.parameters().stream()
                            .noneMatch(parameter -> parameter.grad().defined()));
                }
            }
            long more = Pointer.totalCount() - before;
            assertTrue(more <= 5, more + " more after 30 steps"); // other threads create objects too
        }
    }

    private static String message(CompiledStep step, Tensor inputs, Tensor targets) {
        return assertThrows(IllegalArgumentException.class, () -> step.run(inputs, targets))
                .getMessage();
    }
}
