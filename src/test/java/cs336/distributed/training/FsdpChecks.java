package cs336.distributed.training;

import static cs336.distributed.training.RankChecks.require;
import static cs336.distributed.training.RankChecks.requireClose;
import static cs336.distributed.training.RankChecks.requireRejected;
import static cs336.distributed.training.RankChecks.requireSame;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.Checkpoint;
import cs336.basics.Embedding;
import cs336.basics.GradScaler;
import cs336.basics.GradientClipping;
import cs336.basics.Linear;
import cs336.basics.Losses;
import cs336.basics.ModelEdition;
import cs336.basics.NnModule;
import cs336.basics.Optimizer;
import cs336.basics.RmsNorm;
import cs336.basics.SelfAttention;
import cs336.basics.Sgd;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Precision;
import cs336.checkpointing.CheckpointPolicy;
import cs336.compile.Compiled;
import cs336.compile.CompiledStep;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.launch.FailingWellTest;
import cs336.distributed.launch.RankProgram;
import cs336.torch.AutogradFunction;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The checks of {@link FullyShardedDataParallelTest} on several ranks, in one run. The result maps the name of each
 * check to its failure, or to an empty text. Most checks compute in fp64, so that an error cannot be mistaken for
 * rounding.
 */
public final class FsdpChecks implements RankProgram<FsdpChecks.FsdpTask, LinkedHashMap<String, String>> {
    /**
     * The input of the checks.
     *
     * @param seed of weights and data
     * @param folder for checkpoints, where runs with other numbers of ranks may have left theirs
     */
    public record FsdpTask(long seed, String folder) implements Serializable {
        private static final long serialVersionUID = 1;
    }

    private static final double EXACT = 1e-12;
    private static final DType FP64 = DType.FLOAT64;
    private static final FsdpSettings STANDARD = FsdpSettings.standard();

    /** Default units, one unit at a time, the whole model gathered, each layer a unit, and one unit. */
    private static final List<FsdpSettings> SETTINGS = List.of(
            STANDARD,
            STANDARD.withMaxGatheredUnits(1),
            STANDARD.withMaxGatheredUnits(100),
            STANDARD.withUnits(module -> false).withMaxGatheredUnits(3),
            STANDARD.withUnits(TransformerLM.class::isInstance),
            STANDARD.withShardedModules("ln_final", "layers.0"));

    private final LinkedHashMap<String, String> wrong = new LinkedHashMap<>();
    private Path folder;
    private ProcessGroup group;
    private Device device;
    private long seed;

    private interface ConfigurationCheck {
        void run(ModelEdition edition, FsdpSettings settings);
    }

    /**
     * Runs a check with all settings and editions on two ranks, and with some of them on more, where a collective takes
     * several times as long.
     */
    private void eachConfiguration(ConfigurationCheck check) {
        if (group.size() > 2) {
            check.run(ModelEdition.SPRING_2024, SETTINGS.get(0));
            check.run(ModelEdition.SPRING_2025, SETTINGS.get(3));
            check.run(ModelEdition.SPRING_2024, SETTINGS.get(5));
            return;
        }
        for (ModelEdition edition : List.of(ModelEdition.SPRING_2024, ModelEdition.SPRING_2025)) {
            SETTINGS.forEach(settings -> check.run(edition, settings));
        }
    }

    @Override
    public LinkedHashMap<String, String> run(ProcessGroup all, FsdpTask task) {
        group = all;
        device = all.device();
        seed = task.seed;
        folder = Path.of(task.folder);
        each("the course's protocol in fp32", () -> course(DType.FLOAT32, 1e-4, 1e-6));
        each("the course's protocol with fp16 compute", () -> course(DType.FLOAT16, 1e-4, 1e-4));
        each("Transformers train as in a single process", this::transformers);
        each("rows that do not divide, and fewer rows than ranks", this::unevenRows);
        each("tied weights and gradients of all shards", this::gradients);
        each("layers of one unit may share the weights of two others", this::sharedByTwo);
        each("a rank may have no data", this::noData);
        each("checkpoints of any number of ranks resume training", this::checkpoints);
        each("step counts are not mistaken for rows of a bias", this::stepCounts);
        each("buffers begin as on rank 0, and are saved and loaded", this::buffers);
        each("a whole state dict keeps its values when training continues", this::wholeStateIsACopy);
        if (group.size() > 3) {
            return wrong; // the other checks take long and depend less on the number of ranks
        }
        each("every optimizer", this::everyOptimizer);
        each("frozen parameters", this::frozen);
        each("bf16 compute with fp32 reduction", this::mixedPrecision);
        each("backward passes in noSync accumulate", this::accumulation);
        each("recomputed backward passes accumulate", this::recomputedAccumulation);
        each("an unused replicated parameter has no gradient or an older one", this::unusedReplicated);
        each("several forward passes may precede a backward pass, and reverse", this::severalPasses);
        each("clipping uses the norm of all shards", this::clipping);
        each("ranks agree on a gradient overflow", this::overflow);
        each("parameters without gradient on any rank have none", this::unused);
        each("parameters without gradient on any rank keep an older one", this::unusedLater);
        each("gradients of several dtypes", this::severalDtypes);
        each("several dtypes in a unit without a compute dtype", this::severalDtypesWithoutComputeDtype);
        each("units are recomputed in the backward pass", this::recomputation);
        each("training continues after failed passes", this::failedPasses);
        each("construction shards each parameter at once", this::construction);
        if (group.size() > 2) {
            return wrong; // the number of ranks does not matter to the rest
        }
        each("Transformers with activation checkpointing train as in a single process", this::checkpointing);
        each("values that change after a forward pass are gathered again", this::changedValues);
        each("a backward pass with values that have changed is rejected", this::changedBeforeBackward);
        each("zeroing gradients discards those that are being reduced", this::discardedReduction);
        each("gradients of the input may be computed before the optimizer's step", this::inputGradientBeforeStep);
        each("parameters without dimensions", this::withoutDimensions);
        each("a layer inside of a unit needs its unit", this::calledOutsideOfUnit);
        each("fused layers train as in a single process", this::fusedLayers);
        each("reduced gradients of another dtype accumulate", this::reducedTwice);
        each("gathered units are limited", this::limits);
        each("steps leak no native objects", this::leaks);
        each("a parameter may be frozen later", this::frozenLater);
        each("a frozen parameter must stay frozen", this::trainableLater);
        each("invalid calls are rejected", this::invalidCalls);
        return wrong;
    }

    private void each(String name, RankChecks.RankCheck check) {
        RankChecks.run(name, check, group, wrong);
    }

    /** The model of the course's test, with any sizes. */
    private static final class CourseModel extends NnModule {
        private final NnModule[] layers;

        CourseModel(int vocabulary, int width, int hidden, int outputs, Device device, DType dtype) {
            layers = new NnModule[] {
                child("embedding", new Embedding(vocabulary, width, 1, device, dtype)),
                child("norm1", new RmsNorm(width, device, dtype)),
                child("fc1", new Linear(width, hidden, device, dtype)),
                child("norm2", new RmsNorm(hidden, device, dtype)),
                child("fc2", new Linear(hidden, width, device, dtype)),
                child("head", new Linear(width, outputs, device, dtype))
            };
        }

        @Override
        protected Tensor compute(Tensor ids) {
            Tensor x = layers[0].forward(ids);
            x = layers[2].forward(layers[1].forward(x));
            x = layers[4].forward(layers[3].forward(torch.relu(x)));
            return layers[5].forward(x);
        }
    }

    private static CourseModel course(long seed, int vocabulary, int outputs, Device device, DType dtype) {
        Torch.seed(seed);
        return new CourseModel(vocabulary, 64, 128, outputs, device, dtype);
    }

    /** Compares with a single process that also casts fp32 parameters to the compute dtype, and its gradients back. */
    private void course(DType compute, double rtol, double atol) {
        int examples = 20;
        for (int run = 0; run < (group.size() <= 2 ? 3 : 1); run++) {
            try (var alone = course(42 + run, 100, 100, device, DType.FLOAT32);
                    var cast = course(0, 100, 100, device, compute);
                    var model = course(42 + run + group.rank(), 100, 100, device, DType.FLOAT32);
                    var fsdp = new FullyShardedDataParallel(model, group, STANDARD.withComputeDtype(compute));
                    var sgd = new Sgd(fsdp.namedParameters(), 0.01, 0);
                    var sgdAlone = new Sgd(alone.namedParameters(), 0.01, 0)) {
                Torch.seed(123 + run);
                Tensor ids = torch.randint(0, 100, new long[] {examples, 8}, device.options(DType.INT64));
                Tensor targets = torch.randint(0, 100, new long[] {examples}, device.options(DType.INT64));
                requireSame(alone, fsdp, 0, 0, "before");
                for (int step = 0; step < 3; step++) {
                    int from = examples * group.rank() / group.size();
                    int count = examples * (group.rank() + 1) / group.size() - from;
                    double weight = (double) count * group.size() / examples;
                    loss(fsdp.forward(ids.narrow(0, from, count)), targets.narrow(0, from, count))
                            .mul(new Scalar(weight))
                            .backward();
                    fsdp.finishGradientSynchronization();
                    requireGradients(fsdp, DType.FLOAT32);
                    step(sgd);
                    cast.load(alone.namedParameters());
                    loss(cast.forward(ids), targets).backward();
                    alone.namedParameters()
                            .forEach((name, parameter) -> parameter
                                    .mutable_grad()
                                    .put(cast.namedParameters().get(name).grad().to(DType.FLOAT32.scalarType())));
                    cast.zeroGrad();
                    step(sgdAlone);
                    requireSame(alone, fsdp, rtol, atol, "run " + run + ", step " + step);
                }
            }
        }
    }

    /** Returns the loss of the logits at the last position. */
    private static Tensor loss(Tensor logits, Tensor targets) {
        return Losses.crossEntropy(logits.select(1, logits.size(1) - 1), targets);
    }

    /** Checks that gradients have the shapes and dtypes of their shards, and replicated ones are equal on all ranks. */
    private void requireGradients(FullyShardedDataParallel fsdp, DType dtype) {
        fsdp.namedParameters().forEach((name, shard) -> {
            Tensor gradient = shard.grad();
            require(gradient.defined(), name + " has no gradient");
            require(Arrays.equals(Tensors.shape(shard), Tensors.shape(gradient)), name + ": shape");
            require(DType.of(gradient) == dtype && DType.of(shard) == dtype, name + ": dtype");
            boolean replicated = name.contains("norm") || name.contains("ln");
            if (replicated) {
                for (double[] other : group.allGather(Tensors.toDoubles(gradient))) {
                    require(Arrays.equals(other, Tensors.toDoubles(gradient)), name + " differs between ranks");
                }
            } else {
                long rows = fsdp.module().namedParameters().get(name).size(0);
                require(rows == 0, name + ": the module has " + rows + " rows outside of its passes");
            }
        });
    }

    private TransformerLM transformer(ModelEdition edition, int layers, long anySeed) {
        Torch.seed(anySeed);
        return new TransformerLM(RankChecks.tinyModel(edition, layers), device, FP64);
    }

    private Tensor part(Tensor batch, int each) {
        return batch.narrow(0, (long) each * group.rank(), each);
    }

    private void transformers() {
        eachConfiguration((edition, settings) -> train(RankChecks.tinyModel(edition, 3), settings, 4));
    }

    private void fusedLayers() {
        TransformerConfig config =
                RankChecks.tinyModel(ModelEdition.SPRING_2024, 3).withFusion("compiled");
        for (FsdpSettings settings : List.of(STANDARD, STANDARD.withUnits(module -> false))) { // blocks, single layers
            train(config, settings, 2);
            train(config.withCheckpointing(CheckpointPolicy.elementwise(1)), settings, 2);
        }
        // The normalization before attention is recomputed during the backward pass of this unit.
        train(
                config.withCheckpointing(CheckpointPolicy.elementwise(0)),
                STANDARD.withUnits(SelfAttention.class::isInstance),
                2);
    }

    private void train(TransformerConfig config, FsdpSettings settings, int steps) {
        ModelEdition edition = config.edition();
        Torch.seed(seed + group.rank());
        try (var model = new TransformerLM(config, device, FP64);
                var alone = transformer(edition, 3, seed);
                var fsdp = new FullyShardedDataParallel(model, group, settings);
                var optimizer = new AdamW(fsdp.namedParameters(), AdamWSettings.of(0.01));
                var optimizerAlone = new AdamW(alone.namedParameters(), AdamWSettings.of(0.01))) {
            Batches batches = Batches.random(17, 2 * group.size(), 6, device, seed);
            for (int step = 0; step < steps; step++) {
                Batches.Batch batch = batches.next();
                bothBackward(fsdp, alone, batch);
                step(optimizer);
                step(optimizerAlone);
            }
            // AdamW divides by √v, which amplifies rounding errors of small gradients.
            requireSame(alone, fsdp, 0, 1e-9, settings.toString());
        }
    }

    private void backward(FullyShardedDataParallel fsdp, Batches.Batch batch) {
        Losses.crossEntropy(fsdp.forward(part(batch.inputs(), 2)), part(batch.targets(), 2))
                .backward();
    }

    /** Runs backward passes on the whole batch, and on this rank's part of it. */
    private void bothBackward(FullyShardedDataParallel fsdp, NnModule alone, Batches.Batch batch) {
        backward(fsdp, batch);
        fsdp.finishGradientSynchronization();
        Losses.crossEntropy(alone.forward(batch.inputs()), batch.targets()).backward();
    }

    private static void step(Optimizer optimizer) {
        optimizer.step();
        optimizer.zeroGrad();
    }

    private void everyOptimizer() {
        List<Function<Map<String, Tensor>, Optimizer>> optimizers = List.of(
                parameters -> new Sgd(parameters, 0.1, 0.9),
                parameters -> new AdamW(parameters, AdamWSettings.of(0.01)),
                parameters -> new AdamW(parameters, ShardingChecks.COURSE));
        for (var create : optimizers) {
            try (var alone = course(seed, 7, 2, device, FP64);
                    var model = course(seed, 7, 2, device, FP64);
                    var fsdp = new FullyShardedDataParallel(model, group, STANDARD);
                    var optimizer = create.apply(fsdp.namedParameters());
                    var optimizerAlone = create.apply(alone.namedParameters())) {
                for (int step = 0; step < 3; step++) {
                    bothBackward(fsdp, alone, step, 7, 2);
                    step(optimizer);
                    step(optimizerAlone);
                    requireSame(alone, fsdp, 0, 1e-9, optimizer.kind());
                }
            }
        }
    }

    /** Runs backward passes on a random batch, of which each rank has two examples. */
    private void bothBackward(FullyShardedDataParallel fsdp, NnModule alone, int step, int vocabulary, int outputs) {
        Torch.seed(seed + 1000 + step);
        long all = 2L * group.size();
        Tensor ids = torch.randint(0, vocabulary, new long[] {all, 3}, device.options(DType.INT64));
        Tensor targets = torch.randint(0, outputs, new long[] {all}, device.options(DType.INT64));
        loss(fsdp.forward(part(ids, 2)), part(targets, 2)).backward();
        fsdp.finishGradientSynchronization();
        loss(alone.forward(ids), targets).backward();
    }

    private void unevenRows() {
        for (int[] sizes : new int[][] {{101, 5}, {1, 1}, {3, 2}, {9, 10}}) {
            try (var alone = course(seed, sizes[0], sizes[1], device, FP64);
                    var model = course(seed, sizes[0], sizes[1], device, FP64);
                    var fsdp = new FullyShardedDataParallel(model, group, STANDARD)) {
                long rows = 0;
                for (long[] shape :
                        group.allGather(Tensors.shape(fsdp.namedParameters().get("embedding.weight")))) {
                    rows += shape[0];
                }
                require(rows == sizes[0], rows + " rows of all shards");
                bothBackward(fsdp, alone, 0, sizes[0], sizes[1]);
                requireSameGradients(alone, fsdp);
            }
        }
    }

    /** Compares the gradients of all shards with those of a single process. */
    private void requireSameGradients(NnModule alone, FullyShardedDataParallel fsdp) {
        requireSameGradients(alone, fsdp, EXACT);
    }

    private void requireSameGradients(NnModule alone, FullyShardedDataParallel fsdp, double tolerance) {
        Map<String, Tensor> shards = fsdp.namedParameters();
        var mine = new ArrayList<double[]>();
        shards.forEach((name, shard) -> {
            Tensor gradient = shard.grad();
            boolean expected = alone.namedParameters().get(name).grad().defined();
            require(gradient.defined() == expected, name + " has a gradient: " + !expected);
            mine.add(expected ? Tensors.toDoubles(gradient) : new double[0]);
        });
        List<ArrayList<double[]>> ranks = group.allGather(mine);
        int index = 0;
        for (String name : shards.keySet()) {
            Tensor expected = alone.namedParameters().get(name).grad();
            int at = index++;
            if (expected.defined()) {
                double[] whole = isReplicated(fsdp, name)
                        ? mine.get(at)
                        : ranks.stream()
                                .flatMapToDouble(rank -> Arrays.stream(rank.get(at)))
                                .toArray();
                requireClose(
                        expected,
                        Tensors.of(whole, Tensors.shape(expected)),
                        tolerance,
                        tolerance,
                        "gradient of " + name);
            }
        }
    }

    private static boolean isReplicated(FullyShardedDataParallel fsdp, String name) {
        boolean isNorm = name.contains("norm") || name.contains("ln");
        return isNorm && fsdp.namedParameters().get(name).numel() == 8 // the width of the Transformers
                || name.startsWith("norm");
    }

    private void gradients() {
        eachConfiguration((edition, settings) -> {
            try (var alone = transformer(edition, 2, seed);
                    var model = transformer(edition, 2, seed);
                    var fsdp = new FullyShardedDataParallel(model, group, settings)) {
                Batches batches = Batches.random(17, 2 * group.size(), 6, device, seed);
                for (int step = 0; step < 3; step++) {
                    Batches.Batch batch = batches.next();
                    bothBackward(fsdp, alone, batch); // gradients of both accumulate over the steps
                    requireSameGradients(alone, fsdp);
                }
            }
        });
    }

    private void frozen() {
        for (String prefix : List.of("token_embeddings", "layers.1", "layers.0.ffn.w1", "lm_head", "layers")) {
            try (var alone = transformer(ModelEdition.SPRING_2025, 2, seed);
                    var model = transformer(ModelEdition.SPRING_2025, 2, seed)) {
                for (NnModule each : List.of(alone, model)) {
                    each.namedParameters().forEach((name, parameter) -> {
                        if (name.startsWith(prefix)) {
                            parameter.set_requires_grad(false);
                        }
                    });
                }
                try (var fsdp = new FullyShardedDataParallel(model, group, STANDARD)) {
                    Batches batches = Batches.random(17, 2 * group.size(), 6, device, seed);
                    for (int step = 0; step < 2; step++) {
                        Batches.Batch batch = batches.next();
                        bothBackward(fsdp, alone, batch);
                        requireSameGradients(alone, fsdp);
                    }
                }
            }
        }
    }

    private void mixedPrecision() {
        var config = RankChecks.tinyModel(ModelEdition.SPRING_2025, 2);
        Torch.seed(seed);
        try (var alone = new TransformerLM(config, device);
                var narrow = new TransformerLM(config, device, DType.BFLOAT16)) {
            Torch.seed(seed);
            try (var model = new TransformerLM(config, device);
                    var fsdp = new FullyShardedDataParallel(
                            model,
                            group,
                            STANDARD.withComputeDtype(DType.BFLOAT16).withReduceDtype(DType.FLOAT32))) {
                narrow.load(alone.namedParameters());
                Batches.Batch batch = Batches.random(17, 2, 6, device, seed).next();
                // The same batch on all ranks: the average of equal gradients in fp32 has no rounding error.
                Tensor logits = fsdp.forward(batch.inputs());
                require(DType.of(logits) == DType.BFLOAT16, "logits are " + DType.of(logits));
                Tensor logitsNarrow = narrow.forward(batch.inputs());
                requireClose(logitsNarrow, logits, 0, 0, "logits");
                Losses.crossEntropy(logits, batch.targets()).backward();
                fsdp.finishGradientSynchronization();
                Losses.crossEntropy(logitsNarrow, batch.targets()).backward();
                requireGradients(fsdp, DType.FLOAT32);
                fsdp.namedParameters().forEach((name, shard) -> {
                    Tensor whole = narrow.namedParameters().get(name).grad();
                    List<double[]> shards = group.allGather(Tensors.toDoubles(shard.grad()));
                    double[] found = name.contains("ln")
                            ? shards.get(0)
                            : shards.stream().flatMapToDouble(Arrays::stream).toArray();
                    requireClose(whole, Tensors.of(found, Tensors.shape(whole)), 1e-6, 1e-9, "gradient of " + name);
                });
            }
        }
    }

    private void accumulation() {
        try (var alone = transformer(ModelEdition.SPRING_2024, 2, seed);
                var model = transformer(ModelEdition.SPRING_2024, 2, seed);
                var fsdp = new FullyShardedDataParallel(model, group, STANDARD)) {
            Batches batches = Batches.random(17, 2 * group.size(), 6, device, seed);
            for (int step = 0; step < 4; step++) {
                long before = 0;
                for (int micro = 0; micro < 3; micro++) {
                    Batches.Batch batch = batches.next();
                    Losses.crossEntropy(alone.forward(batch.inputs()), batch.targets())
                            .backward();
                    boolean synchronizes = step == 3 ? false : micro == 2;
                    if (synchronizes) {
                        backward(fsdp, batch);
                    } else {
                        before = reduceScatters();
                        try (var local = fsdp.noSync()) {
                            backward(fsdp, batch);
                        }
                        require(reduceScatters() == before, "noSync communicates gradients");
                    }
                }
                fsdp.finishGradientSynchronization();
                require(group.size() == 1 || reduceScatters() > before, "nothing is reduced");
                requireSameGradients(alone, fsdp);
                fsdp.zeroGrad();
                alone.zeroGrad();
            }
        }
    }

    /** A recomputed function's gradients arrive after its last unit has ended its backward pass. */
    private void recomputedAccumulation() {
        for (CheckpointPolicy policy : List.of(CheckpointPolicy.blocks(2), CheckpointPolicy.recursive())) {
            for (boolean local : new boolean[] {false, true}) {
                TransformerConfig config =
                        RankChecks.tinyModel(ModelEdition.SPRING_2025, 4).withCheckpointing(policy);
                Torch.seed(seed);
                try (var model = new TransformerLM(config, device, FP64);
                        var alone = transformer(ModelEdition.SPRING_2025, 4, seed);
                        var fsdp = new FullyShardedDataParallel(model, group, STANDARD)) {
                    Batches batches = Batches.random(17, 2 * group.size(), 6, device, seed);
                    for (int step = 0; step < 3; step++) {
                        for (int micro = 0; micro < 3; micro++) {
                            Batches.Batch batch = batches.next();
                            Losses.crossEntropy(alone.forward(batch.inputs()), batch.targets())
                                    .backward();
                            try (var noSync = local && micro < 2 ? fsdp.noSync() : null) {
                                backward(fsdp, batch);
                            }
                        }
                        fsdp.finishGradientSynchronization();
                        requireSameGradients(alone, fsdp);
                        fsdp.zeroGrad();
                        alone.zeroGrad();
                    }
                }
            }
        }
    }

    private static final class WithUnusedNorm extends NnModule {
        private final Linear linear;
        private final RmsNorm norm;
        private boolean usesNorm;

        WithUnusedNorm(Device device) {
            linear = child("linear", new Linear(3, 3, device, FP64));
            norm = child("unused", new RmsNorm(3, device, FP64));
        }

        @Override
        protected Tensor compute(Tensor x) {
            return usesNorm ? norm.forward(linear.forward(x)) : linear.forward(x);
        }
    }

    private void unusedReplicated() {
        Torch.seed(seed);
        try (var model = new WithUnusedNorm(device);
                var fsdp = new FullyShardedDataParallel(model, group, STANDARD)) {
            Runnable step = () -> {
                fsdp.forward(torch.ones(new long[] {1, 3}, device.options(FP64)))
                        .sum()
                        .backward();
                fsdp.finishGradientSynchronization();
            };
            for (int i = 0; i < 2; i++) {
                step.run();
                fsdp.namedParameters()
                        .forEach((name, shard) -> require(
                                shard.grad().defined() == name.startsWith("linear"), name + " has a wrong gradient"));
                fsdp.zeroGrad();
            }
            model.usesNorm = true;
            step.run();
            Tensor weight = fsdp.namedParameters().get("unused.weight");
            Tensor older = weight.grad().clone();
            model.usesNorm = false;
            step.run();
            require(weight.grad().defined(), "the older gradient of a replicated parameter is lost");
            requireClose(older, weight.grad(), 0, EXACT, "older gradient");
        }
    }

    private void reducedTwice() {
        try (var alone = transformer(ModelEdition.SPRING_2024, 2, seed);
                var model = transformer(ModelEdition.SPRING_2024, 2, seed);
                var fsdp = new FullyShardedDataParallel(model, group, STANDARD.withReduceDtype(DType.FLOAT32))) {
            Batches batches = Batches.random(17, 2 * group.size(), 6, device, seed);
            for (int step = 0; step < 2; step++) {
                bothBackward(fsdp, alone, batches.next());
                bothBackward(fsdp, alone, batches.next());
                requireGradients(fsdp, FP64);
                requireSameGradients(alone, fsdp, 1e-6);
                fsdp.zeroGrad();
                alone.zeroGrad();
            }
        }
    }

    private long reduceScatters() {
        return group.traffic().of("reduce-scatter").calls();
    }

    private void severalPasses() {
        for (FsdpSettings settings : SETTINGS.subList(0, group.size() <= 2 ? 3 : 1)) {
            // A head that is tied to the embedding is in the first unit of a forward pass, too.
            ModelEdition edition = settings == STANDARD ? ModelEdition.SPRING_2024 : ModelEdition.SPRING_2025;
            try (var alone = transformer(edition, 2, seed);
                    var model = transformer(edition, 2, seed);
                    var fsdp = new FullyShardedDataParallel(model, group, settings)) {
                Batches batches = Batches.random(17, 2 * group.size(), 6, device, seed);
                for (int step = 0; step < 3; step++) {
                    Batches.Batch a = batches.next();
                    Batches.Batch b = batches.next();
                    try (var noGrad = NoGrad.open()) { // an evaluation
                        requireClose(
                                alone.forward(part(a.inputs(), 2)), fsdp.forward(part(a.inputs(), 2)), 0, EXACT, "y");
                    }
                    requireNothingGathered(fsdp, "after an evaluation");
                    Tensor first = fsdp.forward(part(a.inputs(), 2));
                    Tensor second = fsdp.forward(part(b.inputs(), 2));
                    Losses.crossEntropy(first, part(a.targets(), 2))
                            .add(Losses.crossEntropy(second, part(b.targets(), 2)))
                            .backward();
                    backward(fsdp, a);
                    fsdp.finishGradientSynchronization();
                    Losses.crossEntropy(alone.forward(a.inputs()), a.targets()).backward();
                    Losses.crossEntropy(alone.forward(b.inputs()), b.targets()).backward();
                    Losses.crossEntropy(alone.forward(a.inputs()), a.targets()).backward();
                    requireSameGradients(alone, fsdp);
                    fsdp.zeroGrad();
                    alone.zeroGrad();
                }
                // The head stays gathered for a backward pass, but another forward pass follows.
                int most = fsdp.peakGatheredUnits();
                require(
                        most <= settings.maxGatheredUnits(),
                        most + " units at once, not " + settings.maxGatheredUnits());
            }
        }
    }

    /** Checks that the module's sharded parameters have no rows. */
    private static void requireNothingGathered(FullyShardedDataParallel fsdp, String when) {
        fsdp.module().namedParameters().forEach((name, parameter) -> {
            boolean isEmpty = isReplicated(fsdp, name) || parameter.size(0) == 0;
            require(isEmpty, name + " has " + parameter.size(0) + " rows " + when);
        });
    }

    private void clipping() {
        try (var alone = course(seed, 9, 10, device, FP64);
                var model = course(seed, 9, 10, device, FP64);
                var fsdp = new FullyShardedDataParallel(model, group, STANDARD)) {
            for (double maxNorm : new double[] {1e3, 0.01}) {
                bothBackward(fsdp, alone, 0, 9, 10);
                Tensor expected = GradientClipping.clipByGlobalNorm(alone.parameters(), maxNorm);
                requireClose(expected, fsdp.clipGradients(maxNorm), EXACT, 0, "norm");
                requireSameGradients(alone, fsdp);
                fsdp.zeroGrad();
                alone.zeroGrad();
            }
            requireRejected(() -> fsdp.clipGradients(0), "maxNorm must be above 0");
        }
    }

    /** Makes a gradient infinite on one rank only. */
    private void overflow() {
        try (var alone = course(seed, 9, 10, device, DType.FLOAT32);
                var model = course(seed, 9, 10, device, DType.FLOAT32);
                var fsdp = new FullyShardedDataParallel(model, group, STANDARD);
                var optimizer = fsdp.agreeing(new Sgd(fsdp.namedParameters(), 0.1, 0));
                var scaler = new GradScaler(device)) {
            double scale = scaler.scale();
            for (int step = 0; step < 2; step++) {
                bothBackward(fsdp, alone, step, 9, 10);
                if (step == 0 && group.rank() == group.size() - 1) {
                    Tensor gradient = fsdp.namedParameters().get("fc1.weight").grad();
                    gradient.view(-1).get(0).fill_(new Scalar(Double.POSITIVE_INFINITY));
                }
                require(scaler.step(optimizer) == (step == 1), "step " + step);
                scaler.update();
                optimizer.zeroGrad();
                require(scaler.scale() == scale / 2, "scale " + scaler.scale());
            }
        }
    }

    /** Two towers, of which a forward pass uses those that are switched on. */
    private static final class Towers extends NnModule {
        final NnModule a;
        final NnModule b;
        boolean useB;

        Towers(DType ofA, DType ofB, Device device) {
            a = child("a", new Linear(3, 5, device, ofA));
            b = child("b", new Linear(3, 5, device, ofB));
        }

        @Override
        protected Tensor compute(Tensor x) {
            Tensor y = a.forward(x);
            return useB ? y.add(b.forward(x)) : y;
        }
    }

    /** Two layers whose weights other layers own. */
    private static final class TwoLayers extends NnModule {
        private final NnModule first;
        private final NnModule second;

        TwoLayers(Tensor ofFirst, Tensor ofSecond) {
            first = child("first", new Linear(ofFirst));
            second = child("second", new Linear(ofSecond));
        }

        @Override
        protected Tensor compute(Tensor x) {
            return second.forward(torch.tanh(first.forward(x)));
        }
    }

    /** Two layers, and two more with the weights of both. */
    private static final class FourLayers extends NnModule {
        private final NnModule first;
        private final NnModule second;
        private final NnModule both;

        FourLayers(Device device) {
            first = child("first", new Linear(3, 3, device, FP64));
            second = child("second", new Linear(3, 3, device, FP64));
            both = child(
                    "both",
                    new TwoLayers(
                            first.ownParameters().get(0), second.ownParameters().get(0)));
        }

        @Override
        protected Tensor compute(Tensor x) {
            return both.forward(torch.tanh(second.forward(torch.tanh(first.forward(x)))));
        }
    }

    private void sharedByTwo() {
        Torch.seed(seed);
        try (var alone = new FourLayers(device);
                var model = new FourLayers(device);
                var fsdp =
                        new FullyShardedDataParallel(model, group, STANDARD.withUnits(TwoLayers.class::isInstance))) {
            require(fsdp.unitCount() == 1, fsdp.unitCount() + " units");
            fsdp.load(alone.namedParameters());
            for (int step = 0; step < 2; step++) {
                Tensor x = torch.randn(new long[] {4, 3}, device.options(FP64));
                fsdp.forward(x).square().sum().backward();
                fsdp.finishGradientSynchronization();
                alone.forward(x).square().sum().backward();
                requireSameGradients(alone, fsdp);
                fsdp.zeroGrad();
                alone.zeroGrad();
            }
        }
    }

    private void unused() {
        Torch.seed(seed);
        try (var model = new Towers(FP64, FP64, device);
                var fsdp = new FullyShardedDataParallel(model, group, STANDARD)) {
            for (int step = 0; step < 6; step++) {
                Tensor x = torch.full(new long[] {1, 3}, new Scalar(1.0 + group.rank()), device.options(FP64));
                if (step > 2) { // gradients that are discarded do not count
                    model.useB = true;
                    try (var local = fsdp.noSync()) {
                        fsdp.forward(x).sum().backward();
                    }
                    fsdp.zeroGrad();
                }
                model.useB = step % 3 == 1;
                fsdp.forward(x).sum().backward();
                fsdp.finishGradientSynchronization();
                double mean = (group.size() + 1) / 2.0;
                fsdp.namedParameters().forEach((name, shard) -> {
                    boolean has = name.startsWith("a") || model.useB;
                    require(shard.grad().defined() == has, name + " has a gradient: " + !has);
                    if (has && shard.numel() > 0) {
                        double worst =
                                shard.grad().sub(new Scalar(mean)).abs().max().item_double();
                        require(worst < EXACT, name + " is off by " + worst);
                    }
                });
                fsdp.zeroGrad();
            }
        }
    }

    /** Two synchronized backward passes without zeroGrad() between them; the second one uses only one of two layers. */
    private void unusedLater() {
        Torch.seed(seed);
        try (var model = new Towers(FP64, FP64, device);
                var fsdp = new FullyShardedDataParallel(model, group, STANDARD)) {
            for (boolean useB : new boolean[] {true, false}) {
                model.useB = useB;
                fsdp.forward(torch.ones(new long[] {1, 3}, device.options(FP64)))
                        .sum()
                        .backward();
                fsdp.finishGradientSynchronization();
            }
            fsdp.namedParameters().forEach((name, shard) -> {
                Tensor expected = torch.full(Tensors.shape(shard), new Scalar(name.startsWith("a") ? 2 : 1));
                require(shard.grad().defined(), "the gradient of " + name + " is lost");
                requireClose(expected.to(FP64.scalarType()), shard.grad(), 0, EXACT, "gradient of " + name);
            });
        }
    }

    private void severalDtypesWithoutComputeDtype() {
        try (var model = new Towers(DType.BFLOAT16, DType.FLOAT32, device)) {
            requireRejected(
                    () -> new FullyShardedDataParallel(model, group, STANDARD.withUnits(Towers.class::isInstance)),
                    "parameters a.weight (bf16) and b.weight (fp32) of one unit must have one dtype, unless computeDtype"
                            + " is set");
            model.parameters().forEach(weight -> require(weight.size(0) > 0, "the module has changed"));
        }
    }

    private void severalDtypes() {
        FsdpSettings oneUnit = STANDARD.withUnits(Towers.class::isInstance)
                .withComputeDtype(DType.FLOAT32)
                .withReduceDtype(DType.FLOAT32);
        try (var model = new Towers(DType.BFLOAT16, DType.FLOAT32, device);
                var fsdp = new FullyShardedDataParallel(model, group, oneUnit)) {
            model.useB = true;
            double x = 1.001; // no bf16 number
            Backward.of(fsdp.forward(torch.full(new long[] {1, 3}, new Scalar(x), device.options(DType.FLOAT32)))
                            .sum())
                    .run();
            fsdp.finishGradientSynchronization();
            fsdp.namedParameters().forEach((name, shard) -> {
                require(DType.of(shard.grad()) == DType.of(shard), name + " has a gradient of another dtype");
                double tolerance = name.startsWith("b") ? 1e-6 : 0x1p-8;
                for (double element : Tensors.toDoubles(shard.grad())) {
                    require(Math.abs(element - x) < tolerance, "gradient of " + name + " is " + element);
                }
            });
        }
    }

    /** Keeps only the input of a module and runs its forward pass again in the backward pass. */
    private static final class Recomputed extends AutogradFunction {
        private final List<NnModule> modules;

        Recomputed(List<NnModule> modules) {
            this.modules = modules;
        }

        @Override
        protected Tensor[] forward(Context ctx, Tensor... inputs) {
            ctx.save(inputs[0]);
            return new Tensor[] {run(inputs[0])};
        }

        private Tensor run(Tensor x) {
            Tensor y = x;
            for (NnModule module : modules) {
                y = module.forward(y);
            }
            return y;
        }

        @Override
        protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
            boolean before = GradMode.is_enabled();
            GradMode.set_enabled(true);
            Tensor x = ctx.saved(0).detach().set_requires_grad(true);
            try {
                Backward.of(run(x)).with(gradOutputs[0]).run();
            } finally {
                GradMode.set_enabled(before);
            }
            return new Tensor[] {x.grad()};
        }
    }

    /** Residual layers, of which each segment of some layers may be recomputed in the backward pass. */
    private static final class Chain extends NnModule {
        private final List<NnModule> layers = new ArrayList<>();
        private final int segment; // 0 without recomputation

        Chain(int segment, Device device) {
            this.segment = segment;
            for (int i = 0; i < 6; i++) {
                layers.add(child("layers." + i, new Linear(5, 5, device, FP64)));
            }
        }

        @Override
        protected Tensor compute(Tensor x) {
            Tensor y = torch.tanh(layers.get(0).forward(x));
            int each = segment == 0 ? 6 : segment;
            for (int from = 1; from < 6; from += each) {
                List<NnModule> some = layers.subList(from, Math.min(6, from + each));
                if (segment > 0) {
                    y = new Recomputed(some).apply(y)[0];
                } else {
                    for (NnModule layer : some) {
                        y = layer.forward(y);
                    }
                }
            }
            return y;
        }
    }

    private void recomputation() {
        for (int segment : new int[] {1, 2, 5}) {
            for (int most : group.size() <= 2 ? new int[] {1, 2, 3} : new int[] {2}) {
                Torch.seed(seed);
                try (var alone = new Chain(0, device)) {
                    Torch.seed(seed);
                    try (var model = new Chain(segment, device);
                            var fsdp =
                                    new FullyShardedDataParallel(model, group, STANDARD.withMaxGatheredUnits(most))) {
                        long gathers = 0;
                        for (int step = 0; step < 4; step++) {
                            Torch.seed(seed + step);
                            Tensor x = torch.randn(new long[] {2L * group.size(), 5}, device.options(FP64));
                            long before = group.traffic().of("all-gather").calls();
                            Backward.of(fsdp.forward(part(x, 2)).square().mean())
                                    .run();
                            gathers = group.traffic().of("all-gather").calls() - before;
                            fsdp.finishGradientSynchronization();
                            alone.forward(x).square().mean().backward();
                            requireSameGradients(alone, fsdp);
                            fsdp.zeroGrad();
                            alone.zeroGrad();
                        }
                        require(fsdp.peakGatheredUnits() <= most, fsdp.peakGatheredUnits() + " units of " + most);
                        int expected = segment == 1 ? 12 : segment == 2 ? 16 : 17;
                        require(gathers <= expected, gathers + " all-gathers with segments of " + segment);
                    }
                }
            }
        }
    }

    private void checkpointing() {
        for (CheckpointPolicy policy : List.of(
                CheckpointPolicy.nothing(),
                CheckpointPolicy.blocks(2),
                CheckpointPolicy.recursive(),
                CheckpointPolicy.elementwise(2),
                CheckpointPolicy.offloading(2))) {
            Torch.seed(seed);
            TransformerConfig config =
                    RankChecks.tinyModel(ModelEdition.SPRING_2025, 5).withCheckpointing(policy);
            try (var model = new TransformerLM(config, device, FP64);
                    var alone = transformer(ModelEdition.SPRING_2025, 5, seed);
                    var fsdp = new FullyShardedDataParallel(model, group, STANDARD)) {
                Batches batches = Batches.random(17, 2 * group.size(), 6, device, seed);
                for (int step = 0; step < 2; step++) {
                    Batches.Batch batch = batches.next();
                    bothBackward(fsdp, alone, batch);
                    requireSameGradients(alone, fsdp);
                    fsdp.zeroGrad();
                    alone.zeroGrad();
                }
            }
        }
    }

    private void limits() {
        for (int most = 1; most <= 4; most++) {
            try (var model = transformer(ModelEdition.SPRING_2025, 5, seed);
                    var fsdp = new FullyShardedDataParallel(model, group, STANDARD.withMaxGatheredUnits(most))) {
                Batches batches = Batches.random(17, 2 * group.size(), 6, device, seed);
                long gathers = 0;
                for (int step = 0; step < 3; step++) {
                    long before = group.traffic().of("all-gather").calls();
                    backward(fsdp, batches.next());
                    fsdp.finishGradientSynchronization();
                    gathers = group.traffic().of("all-gather").calls() - before;
                    fsdp.zeroGrad();
                }
                require(fsdp.unitCount() == 8, fsdp.unitCount() + " units"); // embedding, 5 blocks, norm and head
                require(fsdp.peakGatheredUnits() == most, fsdp.peakGatheredUnits() + " units at once, not " + most);
                // 7 units with shards, gathered in both passes; not the embedding backward; the head stays between them
                require(gathers == 12, gathers + " all-gathers with at most " + most);
                long n = group.size();
                long block = 4 * padded(8, n) * 8 + 2 * padded(16, n) * 8 + padded(8, n) * 16;
                long ends = 2 * padded(17, n) * 8;
                long bound = Math.max(most * block, most > 1 ? ends / 2 + (most - 1) * block : 0) * FP64.bytes();
                require(
                        fsdp.peakGatheredBytes() <= bound,
                        fsdp.peakGatheredBytes() + " bytes of " + bound + " with " + most);
            }
        }
    }

    private static long padded(long rows, long ranks) {
        return (rows + ranks - 1) / ranks * ranks;
    }

    /** Passes its input on, and fails in the forward or backward pass when it is told to. */
    private static final class Trap extends NnModule {
        private final NnModule layer;
        boolean failForward;
        boolean failBackward;

        Trap(NnModule layer) {
            this.layer = child("layer", layer);
        }

        @Override
        protected Tensor compute(Tensor x) {
            if (failForward) {
                throw new IllegalStateException("no output today");
            }
            Tensor y = layer.forward(x);
            return failBackward ? new FailingWellTest.Faulty().apply(y)[0] : y;
        }
    }

    private static final class TrappedChain extends NnModule {
        final List<Trap> traps = new ArrayList<>();

        TrappedChain(Device device) {
            for (int i = 0; i < 5; i++) {
                traps.add(child("layers." + i, new Trap(new Linear(4, 4, device, FP64))));
            }
        }

        @Override
        protected Tensor compute(Tensor x) {
            Tensor y = x;
            for (Trap trap : traps) {
                y = torch.tanh(trap.forward(y));
            }
            return y;
        }
    }

    private void failedPasses() {
        for (int most : group.size() <= 2 ? new int[] {1, 2, 4} : new int[] {2}) {
            for (boolean whole : new boolean[] {false, true}) {
                Torch.seed(seed);
                try (var alone = new TrappedChain(device)) {
                    Torch.seed(seed);
                    try (var model = new TrappedChain(device);
                            var fsdp = new FullyShardedDataParallel(
                                    model,
                                    group,
                                    STANDARD.withMaxGatheredUnits(most).withUnits(m -> whole && m instanceof Trap))) {
                        for (int step = 0; step < 12; step++) {
                            boolean fails = step % 2 == 1;
                            boolean onThis = step % 4 == 1 || group.rank() == group.size() - 1;
                            Trap trap = model.traps.get(step % 5);
                            trap.failForward = fails && onThis && step < 7;
                            trap.failBackward = fails && onThis && step >= 7;
                            Torch.seed(seed + step);
                            Tensor x = torch.randn(new long[] {2L * group.size(), 4}, device.options(FP64));
                            boolean failed = false;
                            try {
                                Backward.of(fsdp.forward(part(x, 2)).square().mean())
                                        .run();
                            } catch (IllegalStateException | ArithmeticException e) {
                                require(e.getMessage().endsWith("today"), "exception: " + e);
                                failed = true;
                            }
                            require(failed == (fails && onThis), "step " + step + " failed: " + failed);
                            fsdp.finishGradientSynchronization();
                            if (!fails) {
                                alone.forward(x).square().mean().backward();
                                requireSameGradients(alone, fsdp);
                            }
                            trap.failForward = false;
                            trap.failBackward = false;
                            fsdp.zeroGrad();
                            alone.zeroGrad();
                        }
                    }
                }
            }
        }
    }

    private void noData() {
        try (var alone = transformer(ModelEdition.SPRING_2025, 2, seed);
                var model = transformer(ModelEdition.SPRING_2025, 2, seed);
                var fsdp = new FullyShardedDataParallel(model, group, STANDARD)) {
            Batches batches = Batches.random(17, 2 * group.size(), 6, device, seed);
            for (int step = 0; step < 6; step++) {
                Batches.Batch batch = batches.next();
                boolean without = step % 2 == 1;
                if (step > 2) { // an evaluation on all ranks
                    try (var noGrad = NoGrad.open()) {
                        fsdp.forward(batch.inputs());
                    }
                }
                if (!without || group.rank() == 0) {
                    backward(fsdp, batch);
                }
                fsdp.finishGradientSynchronization();
                Tensor loss = without
                        ? Losses.crossEntropy(
                                        alone.forward(batch.inputs().narrow(0, 0, 2)),
                                        batch.targets().narrow(0, 0, 2))
                                .div(new Scalar(group.size()))
                        : Losses.crossEntropy(alone.forward(batch.inputs()), batch.targets());
                loss.backward();
                requireSameGradients(alone, fsdp);
                fsdp.zeroGrad();
                alone.zeroGrad();
            }
        }
    }

    private void construction() {
        var config = RankChecks.tinyModel(ModelEdition.SPRING_2024, 2);
        List<Long> held = new ArrayList<>();
        Torch.seed(seed + group.rank());
        try (var fsdp = FullyShardedDataParallel.construct(
                        () -> {
                            var embedding = new Embedding(12, 4, 1, device, FP64);
                            held.add(embedding.parameterCount());
                            embedding.close();
                            var constructed = new TransformerLM(config, device, FP64);
                            held.add(constructed.parameterCount());
                            return constructed;
                        },
                        group,
                        STANDARD);
                var model = fsdp.module()) {
            require(held.get(0) <= padded(12, group.size()) / group.size() * 4, held + " elements of an embedding");
            Torch.seed(seed);
            try (var alone = new Embedding(12, 4, 1, device, FP64);
                    var whole = new TransformerLM(config, device, FP64)) {
                requireSame(whole, fsdp, 0, 0, "parameters of rank 0");
                long mostElements = whole.namedParameters().entrySet().stream()
                        .mapToLong(named -> {
                            Tensor parameter = named.getValue();
                            long rows = parameter.size(0);
                            boolean isReplicated = named.getKey().contains("ln");
                            return isReplicated
                                    ? parameter.numel()
                                    : padded(rows, group.size()) / group.size() * (parameter.numel() / rows);
                        })
                        .sum();
                require(held.get(1) <= mostElements, held + " elements of a model, not " + mostElements);
                Batches.Batch batch =
                        Batches.random(17, 2 * group.size(), 6, device, seed).next();
                bothBackward(fsdp, whole, batch);
                requireSameGradients(whole, fsdp);
            }
        }
    }

    /** The checkpoints that training of some ranks leaves, and the parameters after another step. */
    private void checkpoints() throws IOException {
        List<Path> saved = new ArrayList<>();
        Path mine = folder.resolve(group.size() + "-ranks");
        try (var alone = course(seed, 9, 3, device, FP64);
                var model = course(seed, 9, 3, device, FP64);
                var fsdp = new FullyShardedDataParallel(model, group, STANDARD);
                var adam = new AdamW(fsdp.namedParameters(), AdamWSettings.of(0.01));
                var adamAlone = new AdamW(alone.namedParameters(), AdamWSettings.of(0.01))) {
            sameBackward(fsdp, alone);
            step(adam);
            step(adamAlone);
            fsdp.save(mine.resolveSibling(group.size() + ".safetensors"), adam, Map.of("step", "1"));
            fsdp.saveShards(mine, adam, Map.of("step", "1"));
            if (group.rank() == 0) {
                Path whole = folder.resolve("alone.safetensors");
                Checkpoint.save(whole, alone.namedParameters(), adamAlone, Map.of("step", "1"));
            }
            group.barrier();
            try (var files = Files.list(folder)) {
                files.sorted().forEach(saved::add);
            }
            require(saved.size() % 2 == 1 && saved.size() >= 3, "files: " + saved);
            sameBackward(fsdp, alone);
            step(adam);
            step(adamAlone);
            for (Path each : saved) {
                resume(each, alone);
            }
            if (group.rank() == 0) {
                requireLoadableAlone(mine.resolveSibling(group.size() + ".safetensors"), alone);
            }
        }
        invalidCheckpoints(mine);
    }

    /** Runs backward passes on the same examples on all ranks, so that the gradients do not depend on their number. */
    private void sameBackward(FullyShardedDataParallel fsdp, NnModule alone) {
        Torch.seed(seed + 7);
        Tensor ids = torch.randint(0, 9, new long[] {4, 3}, device.options(DType.INT64));
        Tensor targets = torch.randint(0, 3, new long[] {4}, device.options(DType.INT64));
        if (fsdp != null) {
            loss(fsdp.forward(ids), targets).backward();
            fsdp.finishGradientSynchronization();
        }
        loss(alone.forward(ids), targets).backward();
    }

    private void resume(Path checkpoint, NnModule alone) throws IOException {
        try (var other = course(seed + 1, 9, 3, device, FP64);
                var model = course(seed + 1, 9, 3, device, FP64);
                var fsdp = new FullyShardedDataParallel(model, group, STANDARD);
                var adam = new AdamW(fsdp.namedParameters(), AdamWSettings.of(0.01))) {
            Map<String, String> texts = fsdp.load(checkpoint, adam);
            require(texts.equals(Map.of("step", "1")), "metadata " + texts);
            sameBackward(fsdp, other);
            step(adam);
            requireSame(alone, fsdp, 0, 1e-9, "resumed from " + checkpoint.getFileName());
        }
    }

    private void requireLoadableAlone(Path checkpoint, NnModule expected) throws IOException {
        try (var alone = course(seed + 1, 9, 3, device, FP64);
                var adam = new AdamW(alone.namedParameters(), AdamWSettings.of(0.01))) {
            Checkpoint.load(checkpoint, alone.namedParameters(), adam);
            sameBackward(null, alone);
            step(adam);
            expected.namedParameters()
                    .forEach((name, tensor) ->
                            requireClose(tensor, alone.namedParameters().get(name), 0, 1e-9, "alone: " + name));
        }
    }

    /** A step count has one element, like a bias with one output, or like each shard of one with an output per rank. */
    private void stepCounts() throws IOException {
        Path saved = Path.of(group.allGather(
                        group.rank() == 0 ? Files.createTempDirectory("biases").toString() : "")
                .get(0));
        ProcessGroup fewer = group.split(Math.min(group.rank(), 1));
        for (int outputs : new int[] {1, group.size()}) {
            Tensor x = torch.rand(new long[] {4, 3}, device.options(FP64));
            group.broadcast(x, 0);
            Path whole = saved.resolve("whole-" + outputs);
            Path shards = saved.resolve("shards-" + outputs);
            try (var alone = biased(outputs);
                    var adamAlone = new AdamW(alone.namedParameters(), AdamWSettings.of(0.01));
                    var model = biased(outputs);
                    var fsdp = new FullyShardedDataParallel(model, group, STANDARD);
                    var adam = new AdamW(fsdp.namedParameters(), AdamWSettings.of(0.01))) {
                squaresStep(fsdp, adam, x);
                fsdp.save(whole, adam, Map.of());
                fsdp.saveShards(shards, adam, Map.of());
                for (int step = 0; step < 2; step++) {
                    Backward.of(alone.forward(x).square().sum()).run();
                    step(adamAlone);
                }
                for (ProcessGroup ranks : List.of(group, fewer)) {
                    requireResumed(alone, ranks, whole, x);
                    requireResumed(alone, ranks, shards, x);
                }
            }
        }
    }

    private Linear biased(int outputs) {
        Torch.seed(seed);
        return new Linear(3, outputs, true, device, FP64);
    }

    private static void squaresStep(FullyShardedDataParallel fsdp, Optimizer optimizer, Tensor x) {
        Backward.of(fsdp.forward(x).square().sum()).run();
        fsdp.finishGradientSynchronization();
        step(optimizer);
    }

    private void requireResumed(Linear expected, ProcessGroup ranks, Path checkpoint, Tensor x) throws IOException {
        int outputs = (int) expected.namedParameters().get("bias").size(0);
        try (var model = biased(outputs);
                var fsdp = new FullyShardedDataParallel(model, ranks, STANDARD);
                var adam = new AdamW(fsdp.namedParameters(), AdamWSettings.of(0.01))) {
            fsdp.load(checkpoint, adam);
            squaresStep(fsdp, adam, x);
            requireSame(expected, fsdp, 0, EXACT, checkpoint.getFileName() + " on " + ranks.size() + " ranks");
        }
    }

    private void invalidCheckpoints(Path saved) throws IOException {
        try (var model = course(seed, 9, 4, device, FP64);
                var fsdp = new FullyShardedDataParallel(model, group, STANDARD);
                var adam = new AdamW(fsdp.namedParameters(), AdamWSettings.of(0.01));
                var sgd = new Sgd(fsdp.namedParameters(), 0.01, 0)) {
            Path missing = group.rank() == group.size() - 1 ? saved.resolve("missing") : saved;
            requireRejected(() -> load(fsdp, saved, sgd), "has the state of the optimizer AdamW; expected Sgd");
            requireRejected(() -> load(fsdp, saved, adam), "head.weight");
            requireRejected(() -> load(fsdp, missing, adam), group.size() == 1 ? "missing" : "");
        }
        incompleteSave(saved.resolve("incomplete"));
        damagedCheckpoint(saved.resolveSibling(group.size() + ".safetensors"), saved.resolve("damaged.safetensors"));
    }

    /** Files of which that of the first rank is older, as after a second save that could not replace it. */
    private void incompleteSave(Path mixed) throws IOException {
        if (group.size() == 1) {
            return;
        }
        Path first = mixed.resolve("rank-0.safetensors");
        Path older = mixed.resolve("older");
        try (var model = course(seed, 9, 3, device, FP64);
                var fsdp = new FullyShardedDataParallel(model, group, STANDARD);
                var adam = new AdamW(fsdp.namedParameters(), AdamWSettings.of(0.01))) {
            fsdp.saveShards(mixed, adam, Map.of("step", "1"));
            if (group.rank() == 0) {
                Files.copy(first, older, StandardCopyOption.REPLACE_EXISTING);
            }
            fsdp.saveShards(mixed, adam, Map.of("step", "2"));
            if (group.rank() == 0) {
                Files.move(older, first, StandardCopyOption.REPLACE_EXISTING);
            }
            group.barrier();
            requireRejected(() -> load(fsdp, mixed, adam), "are of different saves; the last one did not complete");
            requireRejected(() -> saveShards(fsdp, mixed, adam, Map.of("save", "1")), "the reserved name 'save'");
        }
    }

    private static void saveShards(
            FullyShardedDataParallel fsdp, Path folder, Optimizer optimizer, Map<String, String> metadata) {
        try {
            fsdp.saveShards(folder, optimizer, metadata);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void buffers() throws IOException {
        Path saved = Path.of(group.allGather(
                        group.rank() == 0 ? Files.createTempDirectory("buffers").toString() : "")
                .get(0));
        Tensor x = torch.full(new long[] {2, 3}, new Scalar(1 + group.rank()), device.options(FP64));
        try (var model = new RankChecks.WithBuffers(5 + group.rank(), device);
                var fsdp = new FullyShardedDataParallel(model, group, STANDARD);
                var adam = new AdamW(fsdp.namedParameters(), AdamWSettings.of(0.01))) {
            model.require(5, 5, 5, "at first");
            Backward.of(fsdp.forward(x).sum()).run();
            fsdp.finishGradientSynchronization();
            step(adam);
            model.require(6 + group.rank(), 6, 5, "after a pass");
            fsdp.save(saved.resolve("whole"), adam, Map.of());
            fsdp.saveShards(saved.resolve("shards"), adam, Map.of());
            Map<String, Tensor> whole = fsdp.wholeStateDict();
            require(
                    group.rank() > 0 || whole.keySet().equals(model.stateDict().keySet()),
                    "state dict: " + whole.keySet());
            fsdp.broadcastBuffers();
            model.require(6, 6, 5, "copied again");
        }
        requireRejected(
                () -> FullyShardedDataParallel.construct(() -> new Transposed(device), group, STANDARD),
                "tensor table must be contiguous");
        for (String source : List.of("whole", "shards")) {
            var constructed = FullyShardedDataParallel.construct(
                    () -> new RankChecks.WithBuffers(7 + group.rank(), device), group, STANDARD);
            try (var model = (RankChecks.WithBuffers) constructed.module();
                    var adam = new AdamW(constructed.namedParameters(), AdamWSettings.of(0.01))) {
                model.require(7, 7, 7, "after construction");
                constructed.load(saved.resolve(source), adam);
                model.require(6, 6, 7, "loaded");
                Map<String, Tensor> values = new HashMap<>(constructed.gatherParameters());
                requireRejected(() -> constructed.load(values), "buffer mean must not be null");
                values.put("mean", torch.ones(new long[] {3}));
                values.put("passes", torch.ones(new long[] {2}));
                requireRejected(() -> constructed.load(values), "buffer passes has the shape [], not [2]");
                values.put("passes", torch.ones(new long[0]));
                constructed.load(values);
                model.require(1, 1, 7, "loaded from memory");
                values.put("table", torch.ones(new long[] {2}));
                requireRejected(() -> constructed.load(values), "there is no parameter or persistent buffer table");
            } finally {
                constructed.close();
            }
        }
    }

    /** A layer with a buffer that is not contiguous. */
    private static final class Transposed extends NnModule {
        Transposed(Device device) {
            child("fc", new Linear(3, 3, device, DType.FLOAT64));
            buffer("table", torch.ones(2, 3).t());
        }

        @Override
        protected Tensor compute(Tensor x) {
            return x;
        }
    }

    private void wholeStateIsACopy() {
        Tensor ids = torch.zeros(new long[] {2}, device.options(DType.INT64));
        try (var model = course(seed, 7, 2, device, FP64);
                var fsdp = new FullyShardedDataParallel(model, group, STANDARD);
                var adam = new AdamW(fsdp.namedParameters(), AdamWSettings.of(0.01))) {
            Map<String, Tensor> whole = new HashMap<>();
            Map<String, double[]> values = new HashMap<>();
            for (int i = 0; i < 2; i++) {
                Backward.of(fsdp.forward(ids).square().sum()).run();
                fsdp.finishGradientSynchronization();
                step(adam);
                if (i == 0) {
                    whole.putAll(fsdp.wholeStateDict());
                    fsdp.wholeState(adam).forEach((key, tensor) -> whole.put("optimizer." + key, tensor));
                    whole.forEach((name, tensor) -> values.put(name, Tensors.toDoubles(tensor)));
                }
            }
            values.forEach((name, before) ->
                    require(Arrays.equals(before, Tensors.toDoubles(whole.get(name))), name + " has changed"));
        }
    }

    private void damagedCheckpoint(Path intact, Path damaged) throws IOException {
        if (group.rank() == 0) {
            byte[] bytes = Files.readAllBytes(intact);
            bytes[bytes.length - 1] ^= 1;
            Files.write(damaged, bytes);
        }
        group.barrier();
        try (var model = course(seed, 9, 3, device, FP64);
                var fsdp = new FullyShardedDataParallel(model, group, STANDARD);
                var adam = new AdamW(fsdp.namedParameters(), AdamWSettings.of(0.01))) {
            requireRejected(
                    () -> load(fsdp, damaged, adam), damaged.getFileName().toString());
        }
    }

    private static void load(FullyShardedDataParallel fsdp, Path source, Optimizer optimizer) {
        try {
            fsdp.load(source, optimizer);
        } catch (IOException e) {
            throw new IllegalArgumentException(e);
        }
    }

    private void leaks() {
        try (var model = transformer(ModelEdition.SPRING_2024, 2, seed);
                var fsdp = new FullyShardedDataParallel(model, group, STANDARD.withComputeDtype(DType.FLOAT32));
                var optimizer = new AdamW(fsdp.namedParameters(), AdamWSettings.of(0.01))) {
            Batches batches = Batches.random(17, 2 * group.size(), 6, device, seed);
            long before = 0;
            for (int step = 0; step < 25; step++) {
                if (step == 10) {
                    before = Pointer.totalCount();
                }
                try (var scope = MemoryScope.open()) {
                    backward(fsdp, batches.next());
                    fsdp.finishGradientSynchronization();
                    fsdp.clipGradients(1);
                    step(optimizer);
                }
            }
            long more = Pointer.totalCount() - before;
            require(more <= 5, more + " more after 15 steps"); // other threads create objects too
        }
    }

    private void invalidCalls() {
        try (var model = course(seed, 9, 10, device, FP64)) {
            requireRejected(
                    () -> new FullyShardedDataParallel(model, group, STANDARD.withShardedModules("fc")),
                    "there is no module 'fc'");
            var fsdp = new FullyShardedDataParallel(model, group, STANDARD);
            try (var local = fsdp.noSync()) {
                requireRejected(fsdp::finishGradientSynchronization, "inside noSync()");
                requireRejected(fsdp::noSync, "noSync() was called inside noSync()");
            }
            requireRejected(() -> fsdp.load(Map.of()), "parameter embedding.weight");
            requireRejected(
                    () -> fsdp.load(Map.of("x", torch.ones(1))), "there is no parameter or persistent buffer x");
            Tensor y = fsdp.forward(ids());
            Map<String, Tensor> own = model.namedParameters();
            for (Runnable call : List.<Runnable>of(
                    () -> new AdamW(own, AdamWSettings.of(0.1)),
                    () -> new Sgd(own, 0.1, 0),
                    () -> new ShardedOptimizer<>(own, AdamW::new, AdamWSettings.of(0.1), group, Sharding.allGather(1)),
                    () -> new DistributedDataParallel(model, group, Strategy.flat()),
                    () -> new FullyShardedDataParallel(model, group, STANDARD),
                    () -> GradientClipping.clipByGlobalNorm(model.parameters(), 1),
                    () -> saveWhole(own),
                    () -> model.load(own),
                    model::parameterCount,
                    model::zeroGrad)) {
                requireRejected(call, "use the parameters and methods of the container");
            }
            requireRejected(() -> Compiled.of(model).apply(ids()), "which a compiler cannot record");
            requireRejected(() -> stepOf(model, fsdp), "use the parameters and methods of the container");
            Backward.of(fsdp.forward(ids()).sum()).run();
            requireRejected(fsdp::gradientNorm, "call finishGradientSynchronization() first");
            requireRejected(() -> fsdp.clipGradients(1), "call finishGradientSynchronization() first");
            fsdp.finishGradientSynchronization();
            require(fsdp.gradientNorm().item_double() > 0, "gradients have no norm");
            try (var local = fsdp.noSync()) {
                Backward.of(fsdp.forward(ids()).sum()).run();
            }
            requireRejected(fsdp::gradientNorm, "call finishGradientSynchronization() first");
            fsdp.zeroGrad();
            require(fsdp.gradientNorm().item_double() == 0, "discarded gradients have a norm");
            Backward.of(fsdp.forward(ids()).sum()).run();
            try (var optimizer = new Sgd(fsdp.namedParameters(), 0.1, 0)) {
                requireRejected(optimizer::step, "call finishGradientSynchronization() before the optimizer");
                requireRejected(optimizer::zeroGrad, "zeroGrad() of the container to discard them");
                shrink(fsdp);
                requireRejected(() -> fsdp.forward(ids()), "call it before the optimizer's step");
                fsdp.finishGradientSynchronization();
                optimizer.step();
                optimizer.zeroGrad();
            }
            fsdp.forward(ids());
            requireRejected(() -> lossOutsideOfUnit(own.get("fc1.weight")), "at least one token");
            var linear = (Linear) model.children().get(2);
            linear.adapt(new Linear(64, 128, device, FP64));
            requireRejected(fsdp::finishGradientSynchronization, "has parameters that it did not have");
            linear.removeAdapter();
            fsdp.close();
            fsdp.close();
            requireRejected(() -> fsdp.forward(ids()), "was called on a closed container");
            requireRejected(fsdp::zeroGrad, "was called on a closed container");
            requireRejected(() -> Backward.of(y.sum()).run(), "closed");
            requireRejected(fsdp::finishGradientSynchronization, "was called on a closed container");
            requireRejected(fsdp::noSync, "was called on a closed container");
        }
        requireRejected(() -> STANDARD.withMaxGatheredUnits(0), "maxGatheredUnits must be at least 1");
        requireRejected(() -> STANDARD.withComputeDtype(DType.INT64), "computeDtype must be a floating-point");
        if (group.size() > 1) {
            try (var other = course(seed, 9, 10 + group.rank(), device, FP64)) {
                requireRejected(
                        () -> new FullyShardedDataParallel(other, group, STANDARD),
                        "all ranks must have the same model");
            }
            for (FsdpSettings other : List.of(
                    STANDARD.withUnits(module -> group.rank() == 1 && module instanceof CourseModel),
                    STANDARD.withShardedModules(group.rank() == 1 ? "norm1" : "norm2"),
                    STANDARD.withShardedModules(group.rank() == 1 ? "norm1" : "absent"),
                    STANDARD.withMaxGatheredUnits(2 + group.rank()),
                    STANDARD.withComputeDtype(group.rank() == 0 ? DType.BFLOAT16 : DType.FLOAT16),
                    STANDARD.withReduceDtype(group.rank() == 0 ? DType.FLOAT32 : FP64))) {
                try (var same = course(seed, 9, 10, device, FP64)) {
                    requireRejected(
                            () -> new FullyShardedDataParallel(same, group, other),
                            "all ranks must have the same settings and units");
                }
                requireRejected(
                        () -> FullyShardedDataParallel.construct(() -> course(seed, 9, 10, device, FP64), group, other),
                        "all ranks must have the same settings and units");
            }
            requireRejected(
                    () -> FullyShardedDataParallel.construct(this::frozenOnOneRank, group, STANDARD),
                    "all ranks must have the same model");
        }
    }

    private void saveWhole(Map<String, Tensor> parameters) {
        try {
            Checkpoint.save(folder.resolve("module.safetensors"), parameters, Map.of());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void stepOf(NnModule model, FullyShardedDataParallel fsdp) {
        try (var optimizer = new Sgd(fsdp.namedParameters(), 0.1, 0)) {
            CompiledStep.of(model, (outputs, targets) -> outputs.sum(), optimizer, Precision.FP32);
        }
    }

    private Tensor lossOutsideOfUnit(Tensor weight) {
        Tensor hidden = torch.ones(new long[] {2, weight.size(1)}, device.options(FP64));
        return Losses.crossEntropy(hidden.matmul(weight.t()), Tensors.of(new long[] {0, 1}, 2));
    }

    private Tensor ids() {
        return torch.zeros(new long[] {1, 2}, device.options(DType.INT64));
    }

    /** A second pass may leave units gathered: a forward pass without a backward pass, or one of a single layer. */
    private void changedValues() {
        for (DType compute : new DType[] {null, FP64}) { // with FP64, replicated parameters are cast, too
            for (boolean isWhole : new boolean[] {true, false}) {
                try (var alone = course(seed, 9, 10, device, DType.FLOAT32);
                        var model = course(seed, 9, 10, device, DType.FLOAT32);
                        var fsdp = new FullyShardedDataParallel(model, group, STANDARD.withComputeDtype(compute));
                        var optimizer = new AdamW(fsdp.namedParameters(), AdamWSettings.of(0.1));
                        var optimizerAlone = new AdamW(alone.namedParameters(), AdamWSettings.of(0.1))) {
                    for (int step = 0; step < 3; step++) {
                        Tensor found = fsdp.forward(ids());
                        Tensor expected = alone.forward(ids());
                        requireClose(expected, found, 1e-4, 1e-4, "output of step " + step);
                        Backward.of(found.square().mean()).run();
                        Backward.of(expected.square().mean()).run();
                        fsdp.finishGradientSynchronization();
                        if (isWhole) {
                            fsdp.forward(ids());
                        } else {
                            model.layers[0].forward(ids());
                        }
                        step(optimizer);
                        step(optimizerAlone);
                    }
                }
            }
        }
    }

    private void changedBeforeBackward() {
        try (var model = new Linear(3, 3, device, FP64);
                var fsdp = new FullyShardedDataParallel(model, group, STANDARD)) {
            Tensor x = torch.ones(new long[] {1, 3}, device.options(FP64)).set_requires_grad(true);
            Tensor loss = fsdp.forward(x).sum(); // the gradient of x needs the weight
            shrink(fsdp);
            String message = "";
            try {
                Backward.of(loss).run();
            } catch (RuntimeException e) {
                message = e.getMessage();
            }
            require(message.contains("modified by an inplace operation"), "message: " + message);
        }
    }

    /** Changes all parameters in place, like an optimizer. */
    private static void shrink(FullyShardedDataParallel fsdp) {
        try (var noGrad = NoGrad.open()) {
            fsdp.parameters().forEach(parameter -> parameter.mul_(new Scalar(0.5)));
        }
    }

    private void discardedReduction() {
        try (var alone = course(seed, 9, 10, device, FP64);
                var model = course(seed, 9, 10, device, FP64);
                var fsdp = new FullyShardedDataParallel(model, group, STANDARD);
                var optimizer = new Sgd(fsdp.namedParameters(), 0.1, 0)) {
            Map<String, Tensor> before = fsdp.gatherParameters();
            for (int step = 0; step < 2; step++) {
                Backward.of(fsdp.forward(ids()).square().sum()).run();
                fsdp.zeroGrad();
                optimizer.step(); // does nothing
                if (step == 1) {
                    fsdp.load(before); // allowed, because no gradient of other values is left
                }
                Backward.of(fsdp.forward(ids()).sum()).run();
                fsdp.finishGradientSynchronization();
                Backward.of(alone.forward(ids()).sum()).run();
                requireSameGradients(alone, fsdp);
                fsdp.zeroGrad();
                alone.zeroGrad();
            }
        }
    }

    private void inputGradientBeforeStep() {
        try (var alone = new Linear(3, 3, device, FP64);
                var model = new Linear(3, 3, device, FP64);
                var fsdp = new FullyShardedDataParallel(model, group, STANDARD);
                var optimizer = new Sgd(fsdp.namedParameters(), 0.1, 0);
                var optimizerAlone = new Sgd(alone.namedParameters(), 0.1, 0)) {
            fsdp.load(alone.namedParameters());
            for (int step = 0; step < 3; step++) {
                Tensor x = torch.full(new long[] {1, 3}, new Scalar(step + 1.0), device.options(FP64));
                Backward.of(fsdp.forward(x).square().sum()).run();
                fsdp.finishGradientSynchronization();
                x.set_requires_grad(true);
                Backward.of(fsdp.forward(x).sum()).gradients(x);
                step(optimizer);
                Backward.of(alone.forward(x).square().sum()).run();
                step(optimizerAlone);
                requireSame(alone, fsdp, EXACT, EXACT, "step " + step);
            }
        }
    }

    /** A linear layer whose output is multiplied by a trainable number. */
    private static final class Scaled extends NnModule {
        private final NnModule fc;
        private final Tensor scale;

        Scaled(Device device) {
            fc = child("fc", new Linear(3, 3, device, DType.FLOAT32));
            scale = parameter("scale", torch.ones(new long[0], device.options(DType.FLOAT32)));
        }

        @Override
        protected Tensor compute(Tensor x) {
            return fc.forward(x).mul(scale);
        }
    }

    private void withoutDimensions() {
        try (var model = new Scaled(device);
                var fsdp = new FullyShardedDataParallel(model, group, STANDARD.withComputeDtype(FP64));
                var optimizer = new Sgd(fsdp.namedParameters(), 0.5, 0)) {
            Tensor y = fsdp.forward(torch.ones(new long[] {1, 3}, device.options(DType.FLOAT32)));
            Backward.of(y.sum()).run(); // the gradient of the scale is the sum, because the scale is 1
            fsdp.finishGradientSynchronization();
            step(optimizer);
            requireClose(
                    y.sum().mul(new Scalar(-0.5)).add(new Scalar(1.0)),
                    fsdp.namedParameters().get("scale"),
                    1e-6,
                    1e-6,
                    "scale");
        }
    }

    private void calledOutsideOfUnit() {
        for (int maxGathered : new int[] {1, 2}) {
            try (var model = course(seed, 9, 10, device, FP64);
                    var fsdp = new FullyShardedDataParallel(
                            model, group, STANDARD.withUnits(layer -> true).withMaxGatheredUnits(maxGathered))) {
                fsdp.forward(ids());
                String message = "the layer of embedding.weight was called outside of the forward pass of its unit";
                try (var noGrad = NoGrad.open()) {
                    requireRejected(() -> model.layers[0].forward(ids()), message);
                }
            }
        }
    }

    private void frozenLater() {
        for (boolean isShard : new boolean[] {true, false}) {
            try (var alone = course(seed, 9, 10, device, FP64);
                    var model = course(seed, 9, 10, device, FP64);
                    var fsdp = new FullyShardedDataParallel(model, group, STANDARD);
                    var optimizer = new Sgd(fsdp.namedParameters(), 0.1, 0);
                    var optimizerAlone = new Sgd(alone.namedParameters(), 0.1, 0)) {
                for (int step = 0; step < 3; step++) {
                    if (step == 1) { // through the tensor of the optimizer, or that of the module
                        (isShard ? fsdp.namedParameters() : model.namedParameters())
                                .get("fc1.weight")
                                .set_requires_grad(false);
                        alone.namedParameters().get("fc1.weight").set_requires_grad(false);
                    }
                    Backward.of(fsdp.forward(ids()).pow(new Scalar(2)).sum()).run();
                    fsdp.finishGradientSynchronization();
                    Tensor norm = fsdp.gradientNorm();
                    optimizer.step();
                    fsdp.zeroGrad();
                    Backward.of(alone.forward(ids()).pow(new Scalar(2)).sum()).run();
                    requireClose(GradientClipping.norm(alone.parameters()), norm, EXACT, EXACT, "norm of step " + step);
                    optimizerAlone.step();
                    optimizerAlone.zeroGrad();
                    requireSame(alone, fsdp, EXACT, EXACT, "step " + step);
                }
            }
        }
    }

    private void trainableLater() {
        for (String name : List.of("fc1.weight", "norm1.weight")) { // a shard, and a replicated parameter
            for (boolean isOfModule : new boolean[] {true, false}) {
                try (var model = course(seed, 9, 10, device, FP64)) {
                    model.namedParameters().get(name).set_requires_grad(false);
                    try (var fsdp = new FullyShardedDataParallel(model, group, STANDARD)) {
                        (isOfModule ? model.namedParameters() : fsdp.namedParameters())
                                .get(name)
                                .set_requires_grad(true);
                        Backward.of(fsdp.forward(ids()).sum()).run();
                        requireRejected(
                                fsdp::finishGradientSynchronization, "parameter " + name + " requires a gradient");
                    }
                }
            }
        }
    }

    private NnModule frozenOnOneRank() {
        CourseModel model = course(seed, 9, 10, device, FP64);
        if (group.rank() == 1) {
            model.parameters().get(0).set_requires_grad(false);
        }
        return model;
    }
}
