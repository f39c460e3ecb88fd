package cs336.distributed.training;

import static cs336.distributed.training.RankChecks.requireClose;
import static cs336.distributed.training.RankChecks.requireSame;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.Checkpoint;
import cs336.basics.GradientClipping;
import cs336.basics.Linear;
import cs336.basics.Losses;
import cs336.basics.ModelEdition;
import cs336.basics.NnModule;
import cs336.basics.Sgd;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.checkpointing.CheckpointPolicy;
import cs336.distributed.collectives.DeviceMesh;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Traffic;
import cs336.distributed.launch.RankProgram;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The checks of {@link HybridShardingTest} on four ranks that form two replicas of two shards, in one run; one of them
 * runs on two ranks. The result maps the name of each check to its failure, or to an empty text.
 */
public final class HsdpChecks implements RankProgram<FsdpChecks.FsdpTask, LinkedHashMap<String, String>> {
    private static final double EXACT = 1e-12;
    private static final DType FP64 = DType.FLOAT64;
    private static final FsdpSettings FSDP = FsdpSettings.standard();
    private static final FsdpSettings HSDP = FSDP.withReplicas(2);
    private static final int LAYERS = 2;

    private final LinkedHashMap<String, String> wrong = new LinkedHashMap<>();
    private ProcessGroup group;
    private Device device;
    private long seed;
    private Path folder;

    @Override
    public LinkedHashMap<String, String> run(ProcessGroup all, FsdpChecks.FsdpTask task) {
        group = all;
        device = all.device();
        seed = task.seed();
        folder = Path.of(task.folder());
        if (group.size() == 2) {
            each("two replicas train as a single process", () -> train(ModelEdition.SPRING_2024, HSDP));
            return wrong;
        }
        each("replicas that do not divide the ranks are rejected", this::invalidReplicas);
        each("Transformers train as in a single process", this::transformers);
        each("clipping uses the norm of all shards, equal on all ranks", this::clipping);
        each("replicas stay equal bit for bit in fp32", this::equalReplicas);
        each("micro-batches accumulate with and without noSync", this::accumulation);
        each("only shards of gradients cross replicas", this::traffic);
        each("all-reduces among replicas are not awaited in the backward pass", this::overlap);
        each("a rank holds as much as one of two ranks", this::memory);
        each("checkpoints are written once and loaded by any number of shards", this::checkpoints);
        each("other replicas wait while the first one gathers", this::gatherInFirstReplica);
        each("a gradient on one rank only is averaged over all", this::unused);
        each("frozen parameters", this::frozen);
        each("units are recomputed in the backward pass", this::recomputation);
        each("training continues after failed passes on one replica", this::failedPasses);
        each("ranks agree on a gradient overflow", this::overflow);
        each("steps leak no native objects", this::leaks);
        each("a container may be closed at any point", this::closing);
        return wrong;
    }

    private void each(String name, RankChecks.RankCheck check) {
        RankChecks.run(name, check, group, wrong);
    }

    private TransformerLM transformer(ModelEdition edition, DType dtype, long anySeed) {
        Torch.seed(anySeed);
        return new TransformerLM(RankChecks.tinyModel(edition, LAYERS), device, dtype);
    }

    /** Wraps a model whose parameters are those of a single process on rank 0 only. */
    private FullyShardedDataParallel wrap(ModelEdition edition, FsdpSettings settings) {
        return new FullyShardedDataParallel(transformer(edition, FP64, seed + group.rank()), group, settings);
    }

    private static void close(FullyShardedDataParallel fsdp) {
        fsdp.close();
        fsdp.module().close();
    }

    private Batches batches() {
        TransformerConfig config = RankChecks.tinyModel(ModelEdition.SPRING_2025, LAYERS);
        return Batches.random(config.vocabSize(), 2 * group.size(), config.contextLength(), device, seed);
    }

    private Tensor part(Tensor batch) {
        return batch.narrow(0, 2L * group.rank(), 2);
    }

    private void backward(FullyShardedDataParallel fsdp, Batches.Batch batch) {
        Losses.crossEntropy(fsdp.forward(part(batch.inputs())), part(batch.targets()))
                .backward();
    }

    private static void backward(NnModule alone, Batches.Batch batch) {
        Losses.crossEntropy(alone.forward(batch.inputs()), batch.targets()).backward();
    }

    /** Compares the gradients of this rank's shards with their rows in a single process. */
    private void requireSameGradients(NnModule alone, FullyShardedDataParallel fsdp, int replicas) {
        int shards = group.size() / replicas;
        alone.namedParameters().forEach((name, parameter) -> {
            Tensor shard = fsdp.namedParameters().get(name);
            Tensor expected = parameter.grad();
            assertEquals(expected.defined(), shard.grad().defined(), "gradient of " + name);
            if (!expected.defined()) {
                return;
            }
            long rows = parameter.size(0);
            if (!name.contains("ln")) {
                long each = (rows + shards - 1) / shards;
                long from = Math.min(rows, group.rank() % shards * each);
                expected = expected.narrow(0, from, Math.min(rows, from + each) - from);
            }
            requireClose(expected, shard.grad(), EXACT, EXACT, "gradient of " + name);
        });
    }

    private void requireSameBackward(NnModule alone, FullyShardedDataParallel fsdp, Batches.Batch batch) {
        backward(fsdp, batch);
        fsdp.finishGradientSynchronization();
        backward(alone, batch);
        requireSameGradients(alone, fsdp, 2);
    }

    private void invalidReplicas() {
        try (var model = new Linear(3, 5, device, FP64)) {
            assertEquals(
                    "replicas must be a divisor of the number of ranks, 4, not 3",
                    assertThrows(
                                    IllegalArgumentException.class,
                                    () -> new FullyShardedDataParallel(model, group, FSDP.withReplicas(3)))
                            .getMessage());
            for (int other : new int[] {1, 4}) {
                FsdpSettings different = FSDP.withReplicas(group.rank() == 2 ? other : 2);
                assertEquals(
                        "setting 4 is replicas 2 on rank 0, but replicas " + other
                                + " on rank 2; all ranks must have the same settings and units",
                        assertThrows(
                                        IllegalArgumentException.class,
                                        () -> FullyShardedDataParallel.construct(() -> model, group, different))
                                .getMessage());
            }
        }
        assertEquals(
                "replicas must be at least 1, not 0",
                assertThrows(IllegalArgumentException.class, () -> FSDP.withReplicas(0))
                        .getMessage());
    }

    private void transformers() {
        train(ModelEdition.SPRING_2024, HSDP);
        train(ModelEdition.SPRING_2025, HSDP.withMaxGatheredUnits(1).withUnits(module -> false));
        train(ModelEdition.SPRING_2024, HSDP.withMaxGatheredUnits(100).withShardedModules("ln_final", "layers.0"));
        train(ModelEdition.SPRING_2025, FSDP.withReplicas(4));
    }

    private void train(ModelEdition edition, FsdpSettings settings) {
        FullyShardedDataParallel fsdp = FullyShardedDataParallel.construct(
                () -> transformer(edition, FP64, seed + group.rank()), group, settings);
        try (var alone = transformer(edition, FP64, seed);
                var optimizer = new AdamW(fsdp.namedParameters(), AdamWSettings.of(0.01));
                var optimizerAlone = new AdamW(alone.namedParameters(), AdamWSettings.of(0.01))) {
            requireSame(alone, fsdp, 0, 0, "initial");
            Batches batches = batches();
            for (int step = 0; step < 3; step++) {
                Batches.Batch batch = batches.next();
                backward(fsdp, batch);
                fsdp.finishGradientSynchronization();
                backward(alone, batch);
                if (settings.shardedModules().isEmpty()) {
                    requireSameGradients(alone, fsdp, settings.replicas());
                }
                optimizer.step();
                optimizer.zeroGrad();
                optimizerAlone.step();
                optimizerAlone.zeroGrad();
            }
            // AdamW divides by √v, which amplifies rounding errors of small gradients.
            requireSame(alone, fsdp, 1e-9, 1e-9, settings.toString());
        }
        close(fsdp);
    }

    private void clipping() {
        FullyShardedDataParallel fsdp = wrap(ModelEdition.SPRING_2024, HSDP);
        try (var alone = transformer(ModelEdition.SPRING_2024, FP64, seed)) {
            Batches.Batch batch = batches().next();
            for (double maxNorm : new double[] {1e3, 0.01}) {
                backward(fsdp, batch);
                fsdp.finishGradientSynchronization();
                backward(alone, batch);
                Tensor expected = GradientClipping.clipByGlobalNorm(alone.parameters(), maxNorm);
                Tensor found = fsdp.clipGradients(maxNorm);
                requireClose(expected, found, EXACT, EXACT, "norm");
                for (double other : group.allGather(found.item_double())) {
                    assertEquals(found.item_double(), other);
                }
                requireSameGradients(alone, fsdp, 2);
                fsdp.zeroGrad();
                alone.zeroGrad();
            }
        }
        close(fsdp);
    }

    private void equalReplicas() {
        FullyShardedDataParallel fsdp = FullyShardedDataParallel.construct(
                () -> transformer(ModelEdition.SPRING_2025, DType.FLOAT32, seed + group.rank()),
                group,
                HSDP.withComputeDtype(DType.BFLOAT16).withReduceDtype(DType.FLOAT32));
        try (var optimizer = new AdamW(fsdp.namedParameters(), AdamWSettings.of(0.01))) {
            Batches batches = batches();
            for (int step = 0; step < 3; step++) {
                backward(fsdp, batches.next());
                fsdp.finishGradientSynchronization();
                fsdp.clipGradients(0.1);
                optimizer.step();
                optimizer.zeroGrad();
            }
            ProcessGroup replicas = group.mesh(2).replicas();
            fsdp.namedParameters().forEach((name, shard) -> {
                double[] mine = Tensors.toDoubles(shard);
                replicas.allGather(mine).forEach(other -> assertArrayEquals(mine, other, name));
            });
        }
        close(fsdp);
    }

    private void accumulation() {
        FullyShardedDataParallel fsdp = wrap(ModelEdition.SPRING_2024, HSDP);
        try (var alone = transformer(ModelEdition.SPRING_2024, FP64, seed)) {
            ProcessGroup replicas = group.mesh(2).replicas();
            Batches batches = batches();
            for (int step = 0; step < 4; step++) {
                for (int micro = 0; micro < 3; micro++) {
                    Batches.Batch batch = batches.next();
                    backward(alone, batch);
                    if (step % 2 == 0 || micro == 2) {
                        backward(fsdp, batch);
                        continue;
                    }
                    long before = replicas.traffic().of("all-reduce").calls();
                    try (var local = fsdp.noSync()) {
                        backward(fsdp, batch);
                    }
                    assertEquals(before, replicas.traffic().of("all-reduce").calls());
                }
                fsdp.finishGradientSynchronization();
                requireSameGradients(alone, fsdp, 2);
                fsdp.zeroGrad();
                alone.zeroGrad();
            }
        }
        close(fsdp);
    }

    private void traffic() {
        FullyShardedDataParallel fsdp = wrap(ModelEdition.SPRING_2025, HSDP);
        DeviceMesh mesh = group.mesh(2);
        Batches batches = batches();
        long shards = 0;
        long replicated = 0;
        for (Map.Entry<String, Tensor> shard : fsdp.namedParameters().entrySet()) {
            boolean isReplicated = shard.getKey().contains("ln");
            long rows = fsdp.gatherParameters().get(shard.getKey()).size(0);
            long elements =
                    shard.getValue().numel() / shard.getValue().size(0) * (isReplicated ? rows : (rows + 1) / 2);
            shards += isReplicated ? 0 : elements;
            replicated += isReplicated ? elements : 0;
        }
        Traffic[] before = new Traffic[3];
        for (int step = 0; step < 3; step++) {
            before = new Traffic[] {
                group.traffic(), mesh.shards().traffic(), mesh.replicas().traffic()
            };
            backward(fsdp, batches.next());
            fsdp.finishGradientSynchronization();
            fsdp.zeroGrad();
        }
        Traffic all = group.traffic().since(before[0]);
        Traffic within = mesh.shards().traffic().since(before[1]);
        Traffic across = mesh.replicas().traffic().since(before[2]);
        int units = 4; // embedding, two blocks and LM head
        assertEquals(Map.of("all-reduce", new Traffic.Volume(units, 8 * shards)), across.byOperation());
        long flags = Float.BYTES * fsdp.namedParameters().size();
        assertEquals(Map.of("all-reduce", new Traffic.Volume(2, 8 * replicated + flags)), all.byOperation());
        assertEquals(new Traffic.Volume(units, 2 * 8 * shards), within.of("reduce-scatter"));
        assertEquals(2, within.byOperation().size(), within.toString()); // and all-gathers
        close(fsdp);
    }

    /** After a backward pass of four units, three are reduce-scattered, and the shards of two are being all-reduced. */
    private void overlap() {
        FullyShardedDataParallel fsdp = wrap(ModelEdition.SPRING_2025, HSDP);
        ProcessGroup replicas = group.mesh(2).replicas();
        Batches batches = batches();
        for (int step = 0; step < 3; step++) {
            long before = replicas.traffic().of("all-reduce").calls();
            backward(fsdp, batches.next());
            assertEquals(2, replicas.traffic().of("all-reduce").calls() - before);
            fsdp.namedParameters()
                    .forEach((name, shard) -> assertFalse(shard.grad().defined(), name));
            fsdp.finishGradientSynchronization();
            assertEquals(4, replicas.traffic().of("all-reduce").calls() - before);
            fsdp.namedParameters()
                    .forEach((name, shard) -> assertTrue(shard.grad().defined(), name));
            fsdp.zeroGrad();
        }
        close(fsdp);
    }

    private void memory() {
        var held = new ArrayList<List<Long>>();
        ProcessGroup pair = group.mesh(2).shards();
        for (boolean hybrid : new boolean[] {true, false}) {
            var fsdp = hybrid
                    ? wrap(ModelEdition.SPRING_2024, HSDP)
                    : new FullyShardedDataParallel(transformer(ModelEdition.SPRING_2024, FP64, seed), pair, FSDP);
            try (var optimizer = new AdamW(fsdp.namedParameters(), AdamWSettings.of(0.01))) {
                Batches batches = batches();
                for (int step = 0; step < 2; step++) {
                    backward(fsdp, batches.next());
                    fsdp.finishGradientSynchronization();
                    optimizer.step();
                }
                held.add(List.of(
                        elements(fsdp.parameters().stream()),
                        elements(fsdp.parameters().stream().map(Tensor::grad)),
                        elements(optimizer.state().values().stream()),
                        fsdp.peakGatheredBytes(),
                        (long) fsdp.peakGatheredUnits()));
            }
            close(fsdp);
        }
        assertEquals(held.get(1), held.get(0));
    }

    private static long elements(Stream<Tensor> tensors) {
        return tensors.mapToLong(Tensor::numel).sum();
    }

    private void checkpoints() throws IOException {
        Path file = folder.resolve("hsdp.safetensors");
        Path shards = folder.resolve("hsdp");
        Path plain = folder.resolve("plain.safetensors");
        FullyShardedDataParallel fsdp = wrap(ModelEdition.SPRING_2025, HSDP);
        try (var alone = transformer(ModelEdition.SPRING_2025, FP64, seed);
                var adam = new AdamW(fsdp.namedParameters(), AdamWSettings.of(0.01));
                var adamAlone = new AdamW(alone.namedParameters(), AdamWSettings.of(0.01))) {
            step(fsdp, adam, alone, adamAlone);
            fsdp.save(file, adam, Map.of("step", "1"));
            fsdp.saveShards(shards, adam, Map.of("step", "1"));
            if (group.rank() == 0) {
                Checkpoint.save(plain, alone.namedParameters(), adamAlone, Map.of("step", "1"));
            }
            assertEquals(
                    group.rank() == 0 ? alone.namedParameters().size() : 0,
                    fsdp.wholeStateDict().size());
            group.barrier();
            try (var files = Files.list(shards)) {
                assertEquals(
                        List.of("rank-0.safetensors", "rank-1.safetensors"),
                        files.map(each -> each.getFileName().toString())
                                .sorted()
                                .toList());
            }
            step(fsdp, adam, alone, adamAlone);
            for (Path each : List.of(file, shards, plain)) {
                for (int replicas : new int[] {1, 2, 4}) {
                    resume(each, FSDP.withReplicas(replicas), alone);
                }
            }
            resumeAlone(file, alone);
            Path missing = group.rank() == 3 ? folder.resolve("missing") : file;
            assertThrows(IOException.class, () -> fsdp.load(missing, adam));
            requireSame(alone, fsdp, 1e-9, 1e-9, "after a failed load");
        }
        close(fsdp);
    }

    private void step(FullyShardedDataParallel fsdp, AdamW adam, NnModule alone, AdamW adamAlone) {
        Batches.Batch batch = batches().next();
        if (fsdp != null) {
            backward(fsdp, batch);
            fsdp.finishGradientSynchronization();
            adam.step();
            adam.zeroGrad();
        }
        if (alone != null) {
            backward(alone, batch);
            adamAlone.step();
            adamAlone.zeroGrad();
        }
    }

    private void resume(Path checkpoint, FsdpSettings settings, NnModule expected) throws IOException {
        var fsdp =
                new FullyShardedDataParallel(transformer(ModelEdition.SPRING_2025, FP64, seed + 99), group, settings);
        try (var adam = new AdamW(fsdp.namedParameters(), AdamWSettings.of(0.01))) {
            assertEquals(Map.of("step", "1"), fsdp.load(checkpoint, adam));
            step(fsdp, adam, null, null);
            requireSame(expected, fsdp, 1e-9, 1e-9, checkpoint.getFileName() + " with replicas " + settings.replicas());
        }
        close(fsdp);
    }

    private void resumeAlone(Path checkpoint, NnModule expected) throws IOException {
        try (var alone = transformer(ModelEdition.SPRING_2025, FP64, seed + 99);
                var adam = new AdamW(alone.namedParameters(), AdamWSettings.of(0.01))) {
            Checkpoint.load(checkpoint, alone.namedParameters(), adam);
            step(null, null, alone, adam);
            expected.namedParameters()
                    .forEach((name, tensor) ->
                            requireClose(tensor, alone.namedParameters().get(name), 1e-9, 1e-9, "alone: " + name));
        }
    }

    /** Two layers, of which a forward pass uses the second if it is switched on. */
    private static final class OptionalTower extends NnModule {
        private final NnModule always;
        private final NnModule sometimes;
        private boolean isOn;

        OptionalTower(Device device) {
            always = child("always", new Linear(3, 5, device, FP64));
            sometimes = child("sometimes", new Linear(3, 5, device, FP64));
        }

        @Override
        protected Tensor compute(Tensor x) {
            Tensor y = always.forward(x);
            return isOn ? y.add(sometimes.forward(x)) : y;
        }
    }

    private void gatherInFirstReplica() throws InterruptedException {
        try (var model = transformer(ModelEdition.SPRING_2025, FP64, seed);
                var fsdp = new FullyShardedDataParallel(model, group, HSDP);
                var scope = MemoryScope.open()) {
            group.barrier();
            long start = System.nanoTime();
            if (group.rank() < group.size() / 2) { // in the first replica
                Thread.sleep(1000);
            }
            fsdp.wholeStateDict();
            double seconds = (System.nanoTime() - start) / 1e9;
            assertTrue(seconds > 0.9, "rank " + group.rank() + " waited for " + seconds + " s");
        }
    }

    private void unused() {
        Torch.seed(seed);
        FsdpSettings oneUnit = HSDP.withUnits(OptionalTower.class::isInstance);
        try (var model = new OptionalTower(device);
                var fsdp = new FullyShardedDataParallel(model, group, oneUnit)) {
            for (int step = 0; step < 6; step++) {
                boolean anywhere = step % 3 == 1;
                model.isOn = anywhere && group.rank() == 2;
                Tensor x = torch.full(new long[] {1, 3}, new Scalar(1.0 + group.rank()), device.options(FP64));
                fsdp.forward(x).sum().backward();
                fsdp.finishGradientSynchronization();
                fsdp.namedParameters().forEach((name, shard) -> {
                    boolean isFirst = name.startsWith("always");
                    assertEquals(isFirst || anywhere, shard.grad().defined(), name);
                    if (shard.grad().defined()) {
                        double mean = isFirst ? 2.5 : 0.75;
                        requireClose(
                                torch.full_like(shard.detach(), new Scalar(mean)), shard.grad(), EXACT, EXACT, name);
                    }
                });
                fsdp.zeroGrad();
            }
        }
    }

    private void frozen() {
        for (String prefix : List.of("layers.0", "lm_head")) {
            try (var alone = transformer(ModelEdition.SPRING_2025, FP64, seed);
                    var model = transformer(ModelEdition.SPRING_2025, FP64, seed)) {
                for (NnModule each : List.of(alone, model)) {
                    each.namedParameters().forEach((name, parameter) -> {
                        if (name.startsWith(prefix)) {
                            parameter.set_requires_grad(false);
                        }
                    });
                }
                try (var fsdp = new FullyShardedDataParallel(model, group, HSDP)) {
                    Batches batches = batches();
                    for (int step = 0; step < 2; step++) {
                        requireSameBackward(alone, fsdp, batches.next());
                    }
                }
            }
        }
    }

    private void recomputation() {
        TransformerConfig config =
                RankChecks.tinyModel(ModelEdition.SPRING_2025, LAYERS).withCheckpointing(CheckpointPolicy.blocks(1));
        Torch.seed(seed);
        try (var model = new TransformerLM(config, device, FP64);
                var alone = transformer(ModelEdition.SPRING_2025, FP64, seed);
                var fsdp = new FullyShardedDataParallel(model, group, HSDP)) {
            Batches batches = batches();
            for (int step = 0; step < 3; step++) {
                requireSameBackward(alone, fsdp, batches.next());
            }
        }
    }

    /** Layers of which the third fails when it is told to. */
    private static final class FragileChain extends NnModule {
        private final List<NnModule> layers = new ArrayList<>();
        private boolean isBroken;

        FragileChain(Device device) {
            for (int i = 0; i < 5; i++) {
                layers.add(child("layers." + i, new Linear(4, 4, device, FP64)));
            }
        }

        @Override
        protected Tensor compute(Tensor x) {
            Tensor y = x;
            for (NnModule layer : layers) {
                if (isBroken && layer == layers.get(3)) {
                    throw new IllegalStateException("no output today");
                }
                y = torch.tanh(layer.forward(y));
            }
            return y;
        }
    }

    /** Ranks of the second replica fail in a forward pass, or have no data. */
    private void failedPasses() {
        Torch.seed(seed);
        try (var alone = new FragileChain(device)) {
            Torch.seed(seed);
            try (var model = new FragileChain(device);
                    var fsdp = new FullyShardedDataParallel(model, group, HSDP)) {
                for (int step = 0; step < 9; step++) {
                    boolean isThis = step % 4 == 1 ? group.rank() == 3 : group.rank() >= 2;
                    boolean fails = step % 2 == 1 && isThis && step < 7;
                    boolean lacksData = step == 7 && isThis;
                    Torch.seed(seed + step);
                    Tensor x = torch.randn(new long[] {2L * group.size(), 4}, device.options(FP64));
                    model.isBroken = fails;
                    if (fails) {
                        assertThrows(IllegalStateException.class, () -> fsdp.forward(part(x)));
                    } else if (!lacksData) {
                        fsdp.forward(part(x)).square().mean().backward();
                    }
                    fsdp.finishGradientSynchronization();
                    if (step % 2 == 0) {
                        alone.forward(x).square().mean().backward();
                        requireSameGradients(alone, fsdp, 2);
                    }
                    fsdp.zeroGrad();
                    alone.zeroGrad();
                }
            }
        }
    }

    /** Makes a gradient infinite on rank 3 only. */
    private void overflow() {
        FullyShardedDataParallel fsdp = wrap(ModelEdition.SPRING_2025, HSDP);
        try (var optimizer = fsdp.agreeing(new Sgd(fsdp.namedParameters(), 0.1, 0))) {
            Tensor foundInf = torch.full(
                    new long[] {1}, new Scalar(group.rank() == 3 ? 1.0 : 0.0), device.options(DType.FLOAT32));
            optimizer.agreeOnOverflow(foundInf);
            assertEquals(1, foundInf.item_double());
        }
        close(fsdp);
    }

    private void leaks() {
        FullyShardedDataParallel fsdp = wrap(ModelEdition.SPRING_2024, HSDP.withComputeDtype(DType.FLOAT32));
        try (var optimizer = new AdamW(fsdp.namedParameters(), AdamWSettings.of(0.01))) {
            Batches batches = batches();
            long before = 0;
            for (int step = 0; step < 25; step++) {
                if (step == 10) {
                    before = Pointer.totalCount();
                }
                try (var scope = MemoryScope.open()) {
                    backward(fsdp, batches.next());
                    fsdp.finishGradientSynchronization();
                    fsdp.clipGradients(1);
                    optimizer.step();
                    optimizer.zeroGrad();
                }
            }
            long more = Pointer.totalCount() - before;
            assertTrue(more <= 5, more + " more after 15 steps"); // other threads create objects too
        }
        close(fsdp);
    }

    private void closing() {
        int subgroups = group.subgroups().size();
        for (int run = 0; run < 3; run++) {
            FullyShardedDataParallel fsdp = wrap(ModelEdition.SPRING_2025, HSDP);
            Batches batches = batches();
            for (int step = 0; step < run; step++) {
                backward(fsdp, batches.next()); // which leaves reductions in progress
            }
            close(fsdp);
            fsdp.close();
        }
        assertEquals(subgroups, group.subgroups().size());
        assertEquals(4, subgroups, "those of two meshes");
    }
}
