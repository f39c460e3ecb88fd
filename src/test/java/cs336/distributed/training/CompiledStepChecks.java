package cs336.distributed.training;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.GradientClipping;
import cs336.basics.Linear;
import cs336.basics.Losses;
import cs336.basics.ModelEdition;
import cs336.basics.NnModule;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Precision;
import cs336.compile.Compiled;
import cs336.compile.CompiledStep;
import cs336.distributed.bench.ToyModel;
import cs336.distributed.bench.ToyTraining;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.launch.RankProgram;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.function.IntUnaryOperator;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The checks of {@link CompiledStepRanksTest} on several ranks, in one run. They compare the training of a
 * {@link CompiledStep} over ranks with that of a plain loop in one process, in fp64 unless stated otherwise.
 */
public final class CompiledStepChecks implements RankProgram<Long, LinkedHashMap<String, String>> {
    private static final int VOCABULARY = 17;
    private static final int EACH = 2;
    private static final int CONTEXT = 6;
    private static final double MAX_NORM = 0.5;
    private static final double BOUND = 1e-9; // AdamW divides by √v, which amplifies rounding errors
    private static final List<Strategy> STRATEGIES =
            List.of(Strategy.naive(), Strategy.flat(), Strategy.overlapped(), Strategy.bucketed(0.004));

    private final LinkedHashMap<String, String> wrong = new LinkedHashMap<>();
    private ProcessGroup group;
    private Device device;
    private long seed;
    private int steps;

    /** The compiled step of one of the compared runs. */
    private interface StepFactory {
        CompiledStep of(DistributedDataParallel ddp, AdamW optimizer);
    }

    private static final StepFactory PLAIN = (ddp, optimizer) -> CompiledStep.of(ddp, optimizer, Precision.FP32);
    private static final StepFactory FUSED =
            (ddp, optimizer) -> PLAIN.of(ddp, optimizer).fuse();
    private static final StepFactory IN_GRAPH =
            (ddp, optimizer) -> FUSED.of(ddp, optimizer).collectivesInGraph();

    @Override
    public LinkedHashMap<String, String> run(ProcessGroup all, Long anySeed) {
        group = all;
        device = all.device();
        seed = anySeed;
        steps = device.isCuda() ? 10 : 4; // three without a graph, the one that records it, and replays
        boolean nccl = group.backend() == CollectiveBackend.NCCL;
        for (Strategy strategy : STRATEGIES) {
            check("steps equal a single process's: " + strategy, () -> train(strategy, PLAIN, rank -> CONTEXT));
            check("fused steps equal a single process's: " + strategy, () -> train(strategy, FUSED, rank -> CONTEXT));
            if (nccl) {
                check("collectives in the graph: " + strategy, () -> train(strategy, IN_GRAPH, rank -> CONTEXT));
            }
        }
        check(
                "a rank with another input shape records a program of its own",
                () -> train(Strategy.bucketed(0.004), FUSED, rank -> CONTEXT - rank % 2));
        check("accumulated gradients are averaged over batches and ranks", () -> accumulate(Strategy.bucketed(0.004)));
        check("accumulated gradients are averaged after the passes", () -> accumulate(Strategy.flat()));
        for (Strategy strategy : STRATEGIES) {
            check("a compiled forward pass trains like a plain one: " + strategy, () -> compiledForward(strategy));
        }
        check("steps of any module with any loss equal a single process's", this::anyModule);
        check("ZeRO stage 1 equals a single process", this::sharded);
        check("fp16 ranks agree on an overflow", this::overflow);
        check("steps leak no native objects", this::leaks);
        check("invalid calls are rejected", this::invalidCalls);
        return wrong;
    }

    private void check(String name, RankChecks.RankCheck check) {
        RankChecks.run(name, check, group, wrong);
    }

    private TransformerLM model(long anySeed) {
        Torch.seed(anySeed);
        TransformerConfig config = RankChecks.tinyModel(ModelEdition.SPRING_2024, 2); // a tied head
        return new TransformerLM(config, device, DType.FLOAT64);
    }

    private AdamW adamW(TransformerLM model) {
        return new AdamW(model.namedParameters(), AdamWSettings.of(0.01));
    }

    private Batches.Batch batch(int rank, int step, int context) {
        return Batches.random(VOCABULARY, EACH, context, device, seed + 1000L * rank + step)
                .next();
    }

    /** Adds a batch's gradients, times a factor, to those of a model. */
    private static void backward(TransformerLM model, Batches.Batch batch, double factor) {
        Losses.crossEntropy(model.forward(batch.inputs()), batch.targets())
                .mul(new Scalar(factor))
                .backward();
    }

    private static void clipAndUpdate(TransformerLM model, AdamW optimizer) {
        GradientClipping.clipByGlobalNorm(model.parameters(), MAX_NORM);
        optimizer.step();
        optimizer.zeroGrad();
    }

    private static void requireEqual(TransformerLM model, TransformerLM alone, int step) {
        double difference = ToyTraining.difference(model, alone);
        assertTrue(difference < BOUND, "a weight differs by " + difference + " after step " + step);
    }

    private void train(Strategy strategy, StepFactory compiled, IntUnaryOperator contextOfRank) {
        try (var model = model(seed + group.rank());
                var alone = model(seed);
                var ddp = new DistributedDataParallel(model, group, strategy);
                var optimizer = adamW(model);
                var optimizerAlone = adamW(alone);
                var step = compiled.of(ddp, optimizer).clip(MAX_NORM)) {
            for (int i = 0; i < steps; i++) {
                try (var scope = MemoryScope.open()) {
                    boolean isOther = i % 2 == 1; // shapes differ in every second step
                    var own = batch(group.rank(), i, isOther ? contextOfRank.applyAsInt(group.rank()) : CONTEXT);
                    double loss = step.run(own.inputs(), own.targets()).item_double();
                    for (int rank = 0; rank < group.size(); rank++) {
                        var theirs = batch(rank, i, isOther ? contextOfRank.applyAsInt(rank) : CONTEXT);
                        if (rank == group.rank()) {
                            Tensor expected = Losses.crossEntropy(alone.forward(theirs.inputs()), theirs.targets());
                            assertEquals(expected.item_double(), loss, 1e-6);
                        }
                        backward(alone, theirs, 1.0 / group.size());
                    }
                    clipAndUpdate(alone, optimizerAlone);
                    requireEqual(model, alone, i);
                }
            }
        }
    }

    private void accumulate(Strategy strategy) {
        for (StepFactory compiled : List.of(PLAIN, FUSED)) {
            try (var model = model(seed + group.rank());
                    var alone = model(seed);
                    var ddp = new DistributedDataParallel(model, group, strategy);
                    var optimizer = adamW(model);
                    var optimizerAlone = adamW(alone);
                    var step = compiled.of(ddp, optimizer).clip(MAX_NORM)) {
                for (int i = 0; i < steps; i++) {
                    try (var scope = MemoryScope.open()) {
                        int batches = 1 + i % 3;
                        long before = group.calls();
                        for (int k = 0; k < batches; k++) {
                            if (k == batches - 1) {
                                assertEquals(before, group.calls(), "collectives without an update");
                            }
                            var own = batch(group.rank(), 10 * i + k, CONTEXT);
                            if (k < batches - 1) {
                                step.accumulate(own.inputs(), own.targets());
                            } else {
                                step.run(own.inputs(), own.targets());
                            }
                            for (int rank = 0; rank < group.size(); rank++) {
                                backward(alone, batch(rank, 10 * i + k, CONTEXT), 1.0 / group.size() / batches);
                            }
                        }
                        clipAndUpdate(alone, optimizerAlone);
                        requireEqual(model, alone, i);
                    }
                }
            }
        }
    }

    /** A model of two layers, which a compiler records with gradients on every device. */
    private static final class Perceptron extends NnModule {
        private final Linear first;
        private final Linear second;

        Perceptron(Device device) {
            first = child("first", new Linear(5, 7, device, DType.FLOAT64));
            second = child("second", new Linear(7, 3, device, DType.FLOAT64));
        }

        @Override
        protected Tensor compute(Tensor x) {
            return second.forward(torch.tanh(first.forward(x)))
                    .pow(new Scalar(2))
                    .mean();
        }
    }

    private void compiledForward(Strategy strategy) {
        Torch.seed(seed);
        try (var model = new Perceptron(device);
                var ddp = new DistributedDataParallel(model, group, strategy);
                var alone = new Perceptron(device);
                var compiled = Compiled.of(model)) {
            alone.load(model.namedParameters());
            for (int step = 0; step < 3; step++) {
                try (var scope = MemoryScope.open()) {
                    for (int batch = 0; batch < 2; batch++) { // each has a recording of its own in the first step
                        Torch.seed(seed + 2 * step + batch);
                        long rows = 2 + batch;
                        Tensor x = torch.randn(
                                new long[] {rows * group.size(), 5},
                                group.device().options(DType.FLOAT64));
                        try (var accumulation = batch == 0 ? ddp.noSync() : null) {
                            compiled.apply(x.narrow(0, rows * group.rank(), rows))[0].backward();
                        }
                        alone.forward(x).backward();
                    }
                    ddp.finishGradientSynchronization();
                    alone.namedParameters()
                            .forEach((name, parameter) -> RankChecks.requireClose(
                                    parameter.grad(),
                                    model.namedParameters().get(name).grad(),
                                    1e-12,
                                    1e-15,
                                    name));
                    model.zeroGrad();
                    alone.zeroGrad();
                }
            }
            assertEquals(2, compiled.recordings());
        }
    }

    private void anyModule() {
        Torch.seed(seed);
        try (var model = new Perceptron(device);
                var alone = new Perceptron(device);
                var ddp = new DistributedDataParallel(model, group, Strategy.bucketed(0.004));
                var optimizer = new AdamW(model.namedParameters(), AdamWSettings.of(0.01));
                var step = CompiledStep.of(
                        ddp, (mean, targets) -> mean.sub(targets).square().sum(), optimizer, Precision.FP32);
                var ownOptimizer = new AdamW(alone.namedParameters(), AdamWSettings.of(0.01))) {
            alone.load(model.namedParameters());
            for (int i = 0; i < steps; i++) {
                try (var scope = MemoryScope.open()) {
                    for (int rank = 0; rank < group.size(); rank++) {
                        Torch.seed(seed + i * group.size() + rank);
                        Tensor x = torch.randn(new long[] {3, 5}, device.options(DType.FLOAT64));
                        Tensor target = torch.randn(new long[] {1}, device.options(DType.FLOAT64));
                        alone.forward(x)
                                .sub(target)
                                .square()
                                .sum()
                                .div(new Scalar(group.size()))
                                .backward();
                        if (rank == group.rank()) {
                            step.run(x, target);
                        }
                    }
                    ownOptimizer.step();
                    ownOptimizer.zeroGrad();
                    alone.namedParameters()
                            .forEach((name, parameter) -> RankChecks.requireClose(
                                    parameter, model.namedParameters().get(name), 1e-9, 1e-12, name));
                }
            }
        }
    }

    private void sharded() {
        for (Sharding sharding : List.of(Sharding.allGather(0.004), Sharding.broadcast())) {
            try (var model = model(seed + group.rank());
                    var alone = model(seed);
                    var optimizerAlone = adamW(alone);
                    var optimizer = new ShardedOptimizer<>(
                            model.namedParameters(), AdamW::new, AdamWSettings.of(0.01), group, sharding);
                    var ddp = sharding instanceof Sharding.AllGather
                            ? new DistributedDataParallel(model, group, optimizer)
                            : new DistributedDataParallel(model, group, Strategy.bucketed(0.004));
                    var step = CompiledStep.of(ddp, optimizer, Precision.FP32)
                            .fuse()
                            .clip(MAX_NORM)) {
                optimizer.overlapWith(model);
                for (int i = 0; i < steps; i++) {
                    try (var scope = MemoryScope.open()) {
                        var own = batch(group.rank(), i, CONTEXT);
                        step.run(own.inputs(), own.targets());
                        for (int rank = 0; rank < group.size(); rank++) {
                            backward(alone, batch(rank, i, CONTEXT), 1.0 / group.size());
                        }
                        clipAndUpdate(alone, optimizerAlone);
                    }
                }
                optimizer.awaitParameters();
                requireEqual(model, alone, steps);
            }
        }
    }

    /** Trains in fp16 with a head that lets gradients overflow on some ranks until the scale has shrunk. */
    private void overflow() {
        TransformerConfig config = TransformerConfig.builder()
                .vocabSize(VOCABULARY)
                .contextLength(CONTEXT)
                .dModel(16)
                .numLayers(1)
                .numHeads(2)
                .dFf(16)
                .build();
        Torch.seed(seed);
        try (var model = new TransformerLM(config, device);
                var ddp = new DistributedDataParallel(model, group, Strategy.bucketed(0.004));
                var optimizer = adamW(model);
                var step = CompiledStep.of(ddp, optimizer, Precision.FP16).fuse()) {
            Tensor head = model.namedParameters().get("lm_head.weight");
            try (var noGrad = NoGrad.open()) {
                head.mul_(new Scalar(40));
            }
            double[] start = Tensors.toDoubles(head);
            List<Double> scales = new ArrayList<>();
            int updates = 0;
            for (int i = 0; i < 12; i++) {
                try (var scope = MemoryScope.open()) {
                    double[] before = Tensors.toDoubles(head);
                    var own = batch(group.rank(), i, CONTEXT);
                    step.run(own.inputs(), own.targets());
                    double scale = step.scalerState().values().stream()
                            .filter(Tensor::is_floating_point)
                            .mapToDouble(Tensor::item_double)
                            .findFirst()
                            .orElseThrow();
                    scales.add(scale);
                    boolean isSkipped = Arrays.equals(before, Tensors.toDoubles(head));
                    updates += isSkipped ? 0 : 1;
                    double earlier = i == 0 ? 65_536 : scales.get(i - 1);
                    assertEquals(isSkipped, scale < earlier, "step " + i + ": scales " + scales);
                }
            }
            assertTrue(updates > 0 && updates < 12, updates + " updates; scales " + scales);
            double[] end = Tensors.toDoubles(head);
            for (double[] others : group.allGather(end)) {
                assertTrue(Arrays.equals(end, others), "ranks have different weights");
            }
            assertTrue(!Arrays.equals(start, end));
        }
    }

    private void leaks() {
        try (var model = model(seed);
                var ddp = new DistributedDataParallel(model, group, Strategy.bucketed(0.004));
                var optimizer = adamW(model);
                var step =
                        CompiledStep.of(ddp, optimizer, Precision.FP32).fuse().clip(1)) {
            long before = 0;
            for (int i = 0; i < 30; i++) {
                if (i == 10) {
                    before = Pointer.totalCount();
                }
                try (var scope = MemoryScope.open()) {
                    var own = batch(group.rank(), i, CONTEXT);
                    step.accumulate(own.inputs(), own.targets());
                    step.run(own.inputs(), own.targets());
                }
            }
            long more = Pointer.totalCount() - before;
            assertTrue(more <= 5, more + " more after 20 steps"); // other threads create objects too
        }
    }

    private void invalidCalls() {
        try (var toy = new ToyModel(false, device, DType.FLOAT32);
                var ofToy = new DistributedDataParallel(toy, group, Strategy.flat());
                var model = model(seed);
                var ddp = new DistributedDataParallel(model, group, Strategy.bucketed(0.004));
                var optimizer = adamW(model);
                var step = CompiledStep.of(ddp, optimizer, Precision.FP32).fuse()) {
            var error = assertThrows(
                    IllegalArgumentException.class, () -> CompiledStep.of(ofToy, optimizer, Precision.FP32));
            assertEquals("ddp must contain a TransformerLM, not a ToyModel", error.getMessage());
            if (group.backend() == CollectiveBackend.GLOO) {
                assertEquals(
                        "collectivesInGraph() needs a DistributedDataParallel with NCCL",
                        assertThrows(IllegalStateException.class, step::collectivesInGraph)
                                .getMessage());
            }
            var batch = batch(0, 0, CONTEXT);
            try (var local = ddp.noSync()) {
                assertThrows(IllegalStateException.class, () -> step.run(batch.inputs(), batch.targets()));
                assertThrows(IllegalStateException.class, () -> ddp.gradientsReady(model.parameters()));
            }
            step.run(batch.inputs(), batch.targets());
        }
    }
}
