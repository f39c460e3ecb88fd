package cs336.distributed.training;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Checkpoint;
import cs336.basics.CosineSchedule;
import cs336.basics.GradScaler;
import cs336.basics.GradientClipping;
import cs336.basics.Losses;
import cs336.basics.ModelEdition;
import cs336.basics.NnModule;
import cs336.basics.Optimizer;
import cs336.basics.Sgd;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.distributed.bench.ToyModel;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Traffic;
import cs336.distributed.launch.RankProgram;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Checks of the sharded optimizer on several ranks. All checks share one run, because starting processes dominates the
 * time; a failure is reported under the name of its check.
 */
public final class ShardingChecks implements RankProgram<ShardingChecks.ShardingTask, TreeMap<String, String>> {
    /** The AdamW settings of the course's tests. */
    static final AdamWSettings COURSE =
            AdamWSettings.of(0.1).withWeightDecay(0.1).withOrder(AdamW.Order.TORCH);

    private static final double RTOL = 1e-7; // without absolute tolerance
    private static final int STEPS = 10;
    private static final long WAITS_MS = 300;
    private static final long RETURNS_WITHIN_MS = 15_000; // half the timeout of collectives
    private static final Sharding SMALL_BUCKETS = Sharding.allGather(0.0005);
    private static final List<Sharding> SHARDINGS =
            List.of(Sharding.broadcast(), SMALL_BUCKETS, Sharding.allGather(25));

    /**
     * The input of the checks.
     *
     * @param seed of weights and data
     * @param folder for checkpoints, on a file system that all ranks share
     */
    public record ShardingTask(long seed, String folder) implements Serializable {
        private static final long serialVersionUID = 1;
    }

    private static Device device = Device.cpu(); // of this rank

    private interface ShardingCheck {
        void run(ProcessGroup group, ShardingTask task) throws Exception;
    }

    private static final Map<String, ShardingCheck> CHECKS = new TreeMap<>();

    static {
        CHECKS.put("the course's protocol, plain model", (group, task) -> course(group, task, false));
        CHECKS.put("the course's protocol, tied weights", (group, task) -> course(group, task, true));
        CHECKS.put("every optimizer", ShardingChecks::everyOptimizer);
        CHECKS.put("each rank holds the moments of its own shard only", ShardingChecks::ownMomentsAlone);
        CHECKS.put("layers can be unfrozen during training", ShardingChecks::unfreezing);
        CHECKS.put("a parameter group that one rank cannot add changes nothing", ShardingChecks::failingAdd);
        CHECKS.put("a learning rate that one group rejects changes nothing", ShardingChecks::rejectedLearningRate);
        CHECKS.put("learning-rate schedule and global-norm clipping", ShardingChecks::scheduleAndClipping);
        CHECKS.put("a norm is that of the present gradients", ShardingChecks::skippedStep);
        CHECKS.put("the next forward pass waits for its parameters", ShardingChecks::overlap);
        CHECKS.put("only a step without overlap waits for the other ranks", ShardingChecks::waiting);
        CHECKS.put("parameters without gradients do not change", ShardingChecks::withoutGradient);
        CHECKS.put("one checkpoint file for all shards", ShardingChecks::checkpoints);
        CHECKS.put("a step count is not the state of a shard of one element", ShardingChecks::shardOfOneElement);
        CHECKS.put("an invalid state is rejected on all ranks", ShardingChecks::invalidState);
        CHECKS.put("different parameters are rejected on all ranks", ShardingChecks::differentParameters);
        CHECKS.put("a closed or empty optimizer throws on all ranks", ShardingChecks::closedOrEmpty);
        CHECKS.put("traffic is counted", ShardingChecks::bytes);
        CHECKS.put("the size of a bucket is in megabytes", ShardingChecks::bucketSize);
        CHECKS.put("a closed optimizer removes only its own actions", ShardingChecks::actionsOfOthers);
        CHECKS.put("steps leak no native objects", ShardingChecks::leaks);
        CHECKS.put("every data-parallel strategy", ShardingChecks::everyStrategy);
        CHECKS.put("ZeRO stage 1 equals training on one process", ShardingChecks::zero);
        CHECKS.put("ranks agree on a gradient overflow", ShardingChecks::overflow);
        CHECKS.put("ZeRO requires flat shards and all parameters", ShardingChecks::invalidForZero);
        CHECKS.put("ZeRO averages the gradients of a step once", ShardingChecks::averagedTwice);
        CHECKS.put("different shardings are rejected on all ranks", ShardingChecks::differentShardings);
        CHECKS.put("autograd notices updates of all ranks", ShardingChecks::updateBeforeBackward);
        CHECKS.put("a sparse gradient is rejected by name", ShardingChecks::sparseGradient);
    }

    static List<String> names() {
        return List.copyOf(CHECKS.keySet());
    }

    /** Returns the failure of each check by name; empty if it passed. */
    @Override
    public TreeMap<String, String> run(ProcessGroup group, ShardingTask task) {
        device = group.device();
        var results = new TreeMap<String, String>();
        CHECKS.forEach((name, check) -> {
            try (var scope = MemoryScope.open()) {
                check.run(group, task);
                results.put(name, "");
            } catch (Exception | AssertionError e) {
                results.put(
                        name,
                        e + " at "
                                + Arrays.stream(e.getStackTrace())
                                        .filter(frame -> frame.getClassName().startsWith("cs336"))
                                        .limit(3)
                                        .toList());
            }
            group.barrier();
        });
        return results;
    }

    /** Makes a gradient infinite on one rank only, as a reduce-scatter does on the rank that owns it. */
    private static void overflow(ProcessGroup group, ShardingTask task) {
        for (Sharding sharding : SHARDINGS) {
            try (var model = toy(task, false);
                    var optimizer =
                            new ShardedOptimizer<>(model.namedParameters(), AdamW::new, COURSE, group, sharding);
                    var scaler = new GradScaler(device)) {
                double scale = scaler.scale();
                for (int step = 0; step < 2; step++) {
                    backward(task.seed + step, model);
                    boolean overflows = step == 0;
                    if (overflows && group.rank() == group.size() - 1) {
                        Tensor gradient =
                                model.namedParameters().get("fc1.weight").grad();
                        gradient.view(-1).get(0).fill_(new Scalar(Double.POSITIVE_INFINITY));
                    }
                    assertEquals(!overflows, scaler.step(optimizer));
                    scaler.update();
                    optimizer.zeroGrad();
                    assertEquals(scale / 2, scaler.scale());
                }
            }
        }
    }

    private static ToyModel toy(ShardingTask task, boolean tied) {
        Torch.seed(task.seed);
        return new ToyModel(tied, device, DType.FLOAT32);
    }

    /** Runs a backward pass on a random batch, the same in all models and on all ranks. */
    private static void backward(long seed, NnModule... models) {
        for (NnModule model : models) {
            backward(seed, model);
        }
    }

    /** Returns the loss of a backward pass on a random batch. */
    private static Tensor backward(long seed, NnModule model) {
        Torch.seed(seed);
        Tensor x = torch.randn(new long[] {20, ToyModel.IN}, device.options(DType.FLOAT32));
        Tensor y = torch.randn(new long[] {20, ToyModel.OUT}, device.options(DType.FLOAT32));
        Tensor loss = torch.mse_loss(model.forward(x), y);
        loss.backward();
        return loss;
    }

    private static void assertSame(NnModule expected, NnModule found, double rtol, String what) {
        Map<String, Tensor> others = found.namedParameters();
        expected.namedParameters().forEach((name, parameter) -> {
            double[] a = Tensors.toDoubles(parameter);
            double[] b = Tensors.toDoubles(others.get(name));
            for (int i = 0; i < a.length; i++) {
                assertEquals(a[i], b[i], rtol * Math.abs(a[i]), what + ": " + name + "[" + i + "]");
            }
        });
    }

    /** Returns the maximum absolute difference between the parameters of two models. */
    private static double distance(NnModule a, NnModule b) {
        Map<String, Tensor> others = b.namedParameters();
        double largest = 0;
        for (var parameter : a.namedParameters().entrySet()) {
            Tensor other = others.get(parameter.getKey());
            double most = parameter.getValue().sub(other).abs().max().item_double();
            largest = Math.max(largest, most);
        }
        return largest;
    }

    private static void course(ProcessGroup group, ShardingTask task, boolean tied) {
        for (Sharding sharding : SHARDINGS) {
            try (var plain = toy(task, tied);
                    var sharded = toy(task, tied);
                    var start = toy(task, tied);
                    var optimizer = new AdamW(plain.namedParameters(), COURSE);
                    var shards =
                            new ShardedOptimizer<>(sharded.namedParameters(), AdamW::new, COURSE, group, sharding)) {
                for (int step = 0; step < STEPS; step++) {
                    long seed = task.seed + step;
                    optimizer.zeroGrad();
                    Tensor expected = backward(seed, plain);
                    optimizer.step();
                    Tensor loss = shards.step(() -> {
                        shards.zeroGrad();
                        return backward(seed, sharded);
                    });
                    assertEquals(expected.item_double(), loss.item_double(), 1e-5 * expected.item_double());
                }
                assertSame(plain, sharded, RTOL, sharding.toString());
                assertTrue(distance(start, sharded) > 0.1, "the parameters did not change");
            }
        }
    }

    private static <O> void agree(
            ProcessGroup group,
            ShardingTask task,
            BiFunction<Map<String, Tensor>, O, ? extends Optimizer> factory,
            O options,
            Sharding sharding) {
        try (var plain = toy(task, true);
                var sharded = toy(task, true);
                var optimizer = factory.apply(plain.namedParameters(), options);
                var shards = new ShardedOptimizer<>(sharded.namedParameters(), factory, options, group, sharding)) {
            for (int step = 0; step < 4; step++) {
                backward(task.seed + step, plain, sharded);
                optimizer.step();
                shards.step();
                optimizer.zeroGrad();
                shards.zeroGrad();
            }
            assertSame(plain, sharded, RTOL, options + " " + sharding);
        }
    }

    private static void everyOptimizer(ProcessGroup group, ShardingTask task) {
        for (Sharding sharding : SHARDINGS) {
            for (AdamW.Order order : AdamW.Order.values()) {
                agree(group, task, AdamW::new, COURSE.withOrder(order), sharding);
            }
            agree(group, task, (parameters, rate) -> new Sgd(parameters, rate, 0), 0.1, sharding);
            agree(group, task, (parameters, rate) -> new Sgd(parameters, rate, 0.9), 0.1, sharding);
        }
    }

    private static void ownMomentsAlone(ProcessGroup group, ShardingTask task) {
        for (Sharding sharding : SHARDINGS) {
            try (var model = toy(task, true);
                    var shards = new ShardedOptimizer<>(model.namedParameters(), AdamW::new, COURSE, group, sharding)) {
                assertFalse(shards.parameters().containsKey("fc4.weight"), "tied weights are one parameter");
                backward(task.seed, model);
                shards.step();
                long mine = shards.state().entrySet().stream()
                        .filter(e -> e.getKey().endsWith(".m"))
                        .mapToLong(e -> e.getValue().numel())
                        .sum();
                long frozen = model.namedParameters().values().stream()
                        .filter(p -> !p.requires_grad())
                        .mapToLong(Tensor::numel)
                        .sum();
                long all = group.allGather(mine).stream()
                        .mapToLong(Long::longValue)
                        .sum();
                assertEquals(model.parameterCount() - frozen, all, sharding.toString());
                assertTrue(4 * mine <= shards.shardBytes()[group.rank()], sharding.toString());
                assertEquals(
                        4 * model.parameterCount(),
                        Arrays.stream(shards.shardBytes()).sum());
                assertTrue(shards.imbalance() < 1.6, () -> sharding + ": " + shards.imbalance());
            }
        }
    }

    /** Runs a backward pass on this rank's fraction of a batch, and averages the gradients. */
    private static void backwardOnLocalBatch(ProcessGroup group, long seed, DistributedDataParallel ddp, DType dtype) {
        Torch.seed(seed);
        Tensor x = torch.randn(new long[] {20, ToyModel.IN}, device.options(dtype));
        Tensor y = torch.randn(new long[] {20, ToyModel.OUT}, device.options(dtype));
        int localBatch = 20 / group.size();
        long from = (long) localBatch * group.rank();
        torch.mse_loss(ddp.forward(x.narrow(0, from, localBatch)), y.narrow(0, from, localBatch))
                .backward();
        ddp.finishGradientSynchronization();
    }

    private static void everyStrategy(ProcessGroup group, ShardingTask task) {
        for (Strategy strategy :
                List.of(Strategy.naive(), Strategy.flat(), Strategy.overlapped(), Strategy.bucketed(0.0016))) {
            for (Sharding sharding : List.of(Sharding.broadcast(), SMALL_BUCKETS)) {
                try (var plain = toy(task, true);
                        var sharded = toy(task, true);
                        var plainDdp = new DistributedDataParallel(plain, group, strategy);
                        var shardedDdp = new DistributedDataParallel(sharded, group, strategy);
                        var optimizer = new AdamW(plain.namedParameters(), COURSE);
                        var shards = new ShardedOptimizer<>(
                                sharded.namedParameters(), AdamW::new, COURSE, group, sharding)) {
                    shards.overlapWith(sharded);
                    for (int step = 0; step < 3; step++) {
                        backwardOnLocalBatch(group, task.seed + step, plainDdp, DType.FLOAT32);
                        backwardOnLocalBatch(group, task.seed + step, shardedDdp, DType.FLOAT32);
                        optimizer.step();
                        shards.step();
                        optimizer.zeroGrad();
                        shards.zeroGrad();
                    }
                    shards.awaitParameters();
                    assertSame(plain, sharded, RTOL, strategy + ", " + sharding);
                }
            }
        }
    }

    private static ToyModel toy64(ShardingTask task) {
        Torch.seed(task.seed);
        return new ToyModel(true, device, DType.FLOAT64);
    }

    /** Compares in fp64, because sums over ranks have another order than sums over a batch. */
    private static void zero(ProcessGroup group, ShardingTask task) {
        double maxNorm = 1e-2;
        try (var alone = toy64(task);
                var model = toy64(task);
                var optimizer = new AdamW(alone.namedParameters(), COURSE.withEps(1e-3));
                var shards = new ShardedOptimizer<>(
                        model.namedParameters(), AdamW::new, COURSE.withEps(1e-3), group, SMALL_BUCKETS);
                var ddp = new DistributedDataParallel(model, group, shards)) {
            shards.overlapWith(model);
            for (int step = 0; step < 6; step++) {
                Torch.seed(task.seed + step);
                Tensor x = torch.randn(new long[] {20, ToyModel.IN}, device.options(DType.FLOAT64));
                Tensor y = torch.randn(new long[] {20, ToyModel.OUT}, device.options(DType.FLOAT64));
                torch.mse_loss(alone.forward(x), y).backward();
                Traffic before = group.traffic();
                backwardOnLocalBatch(group, task.seed + step, ddp, DType.FLOAT64);
                Traffic sent = group.traffic().since(before);
                assertEquals(ddp.collectivesPerStep(), sent.of("reduce-scatter").calls(), sent.toString());
                if (step % 2 == 1) {
                    double norm = GradientClipping.clipByGlobalNorm(alone.parameters(), maxNorm)
                            .item_double();
                    assertEquals(norm, shards.clipGradients(maxNorm).item_double(), 1e-12 * norm);
                }
                optimizer.step();
                shards.step();
                optimizer.zeroGrad();
                shards.zeroGrad();
            }
            shards.awaitParameters();
            assertTrue(distance(alone, model) < 1e-11, () -> "distance " + distance(alone, model));
        }
    }

    private static void invalidForZero(ProcessGroup group, ShardingTask task) {
        try (var model = toy(task, false);
                var whole = new ShardedOptimizer<>(
                        model.namedParameters(), AdamW::new, COURSE, group, Sharding.broadcast());
                var some =
                        new ShardedOptimizer<>(only(model, "fc1.weight"), AdamW::new, COURSE, group, SMALL_BUCKETS)) {
            var broadcast = assertThrows(
                    IllegalArgumentException.class, () -> new DistributedDataParallel(model, group, whole));
            assertTrue(broadcast.getMessage().endsWith("must be all-gather, not broadcast"), broadcast.getMessage());
            var missing =
                    assertThrows(IllegalArgumentException.class, () -> new DistributedDataParallel(model, group, some));
            assertTrue(
                    missing.getMessage().contains("every trainable parameter must be in the optimizer"),
                    missing.getMessage());
        }
    }

    private static void averagedTwice(ProcessGroup group, ShardingTask task) {
        String expected = "the gradient of parameter fc";
        try (var model = toy(task, false);
                var shards = new ShardedOptimizer<>(model.namedParameters(), AdamW::new, COURSE, group, SMALL_BUCKETS);
                var ddp = new DistributedDataParallel(model, group, shards)) {
            for (int step = 0; step < 3; step++) {
                backwardOnLocalBatch(group, task.seed + step, ddp, DType.FLOAT32);
                double[] norm = Tensors.toDoubles(shards.gradientNorm());
                List<Runnable> calls = List.of(
                        ddp::finishGradientSynchronization,
                        () -> backwardOnLocalBatch(group, task.seed, ddp, DType.FLOAT32),
                        () -> {
                            try (var accumulation = ddp.noSync()) {
                                backward(task.seed, model);
                            }
                        });
                for (Runnable call : calls) {
                    var error = assertThrows(RuntimeException.class, call::run); // a backward pass wraps it
                    assertTrue(
                            error.getMessage().contains(expected)
                                    && error.getMessage().contains("is averaged already"),
                            error.getMessage());
                }
                assertArrayEquals(norm, Tensors.toDoubles(shards.gradientNorm()));
                shards.zeroGrad();
                ddp.finishGradientSynchronization(); // no rank has data
                ddp.finishGradientSynchronization();
            }
        }
    }

    private static void differentShardings(ProcessGroup group, ShardingTask task) {
        int last = group.size() - 1;
        for (Sharding other : List.of(Sharding.broadcast(), Sharding.allGather(7))) {
            try (var model = toy(task, false)) {
                Sharding mine = group.rank() == last ? other : Sharding.allGather(0.5);
                var error = assertThrows(
                        IllegalArgumentException.class,
                        () -> new ShardedOptimizer<>(model.namedParameters(), AdamW::new, COURSE, group, mine));
                assertEquals(
                        "sharding 0 is all-gather of buckets of 0.5 MB on rank 0, but "
                                + (other instanceof Sharding.Broadcast
                                        ? "broadcast"
                                        : "all-gather of buckets of 7.0 MB")
                                + " on rank " + last + "; all ranks must have the same sharding",
                        error.getMessage());
            }
        }
    }

    /** A backward pass through a graph from before the update would compute with the new values. */
    private static void updateBeforeBackward(ProcessGroup group, ShardingTask task) {
        for (Sharding sharding : SHARDINGS) {
            try (var model = toy(task, false);
                    var shards = new ShardedOptimizer<>(model.namedParameters(), AdamW::new, COURSE, group, sharding)) {
                Tensor ones = torch.ones(new long[] {2, ToyModel.IN}, device.options(DType.FLOAT32));
                Tensor loss = model.forward(ones).sum();
                backward(task.seed, model);
                shards.step();
                var error = assertThrows(RuntimeException.class, loss::backward);
                assertTrue(error.getMessage().contains("modified by an inplace operation"), error.getMessage());
            }
        }
    }

    private static void sparseGradient(ProcessGroup group, ShardingTask task) {
        Tensor weight = torch.ones(new long[] {4, 2}, device.options(DType.FLOAT32));
        weight.set_requires_grad(true);
        try (var shards = new ShardedOptimizer<>(Map.of("w", weight), AdamW::new, COURSE, group, SMALL_BUCKETS)) {
            Tensor ids = torch.zeros(new long[] {3}, device.options(DType.INT64));
            torch.embedding(weight, ids, -1, false, true).sum().backward();
            if (shards.shardBytes()[group.rank()] > 0) {
                var error = assertThrows(IllegalStateException.class, shards::update);
                assertTrue(error.getMessage().startsWith("the gradient of parameter w is sparse;"), error.getMessage());
            }
        }
    }

    private static void leaks(ProcessGroup group, ShardingTask task) {
        for (Sharding sharding : List.of(Sharding.broadcast(), SMALL_BUCKETS)) {
            try (var model = toy(task, true);
                    var shards = new ShardedOptimizer<>(model.namedParameters(), AdamW::new, COURSE, group, sharding)) {
                shards.overlapWith(model);
                long before = 0;
                for (int step = 0; step < 24; step++) {
                    if (step == 8) {
                        before = Pointer.totalCount();
                    }
                    try (var scope = MemoryScope.open()) {
                        backward(task.seed + step, model);
                        shards.clipGradients(1);
                        shards.step();
                        shards.zeroGrad();
                    }
                }
                long more = Pointer.totalCount() - before;
                assertTrue(
                        more <= 5,
                        () -> sharding + ": " + more + " more after 16 steps"); // other threads create objects too
            }
        }
    }

    private static void actionsOfOthers(ProcessGroup group, ShardingTask task) {
        try (var model = toy(task, true)) {
            List<String> calls = new ArrayList<>();
            model.beforeForward(() -> calls.add("before"));
            model.afterForward(output -> calls.add("after"));
            try (var shards =
                    new ShardedOptimizer<>(model.namedParameters(), AdamW::new, COURSE, group, SMALL_BUCKETS)) {
                shards.overlapWith(model);
                backward(task.seed, model);
                assertEquals(List.of("before", "after"), calls);
            }
            backward(task.seed, model);
            assertEquals(List.of("before", "after", "before", "after"), calls);
        }
    }

    private static Map<String, Tensor> only(NnModule model, String... names) {
        var some = new LinkedHashMap<String, Tensor>();
        for (String name : names) {
            some.put(name, model.namedParameters().get(name));
        }
        return some;
    }

    private static void unfreezing(ProcessGroup group, ShardingTask task) {
        AdamWSettings slower = COURSE.withLearningRate(0.01).withWeightDecay(0);
        for (Sharding sharding : SHARDINGS) {
            try (var plain = toy(task, false);
                    var sharded = toy(task, false);
                    var optimizer = new AdamW(only(plain, "fc3.weight"), COURSE);
                    var shards =
                            new ShardedOptimizer<>(only(sharded, "fc3.weight"), AdamW::new, COURSE, group, sharding)) {
                for (int step = 0; step < 6; step++) {
                    if (step == 2) {
                        plain.namedParameters().get("fc2.bias").set_requires_grad(true);
                        sharded.namedParameters().get("fc2.bias").set_requires_grad(true);
                        optimizer.add(only(plain, "fc2.weight", "fc2.bias"), slower);
                        shards.add(only(sharded, "fc2.weight", "fc2.bias"), slower);
                    }
                    if (step == 4) {
                        optimizer.add(only(plain, "fc1.weight"), COURSE);
                        shards.add(only(sharded, "fc1.weight"), COURSE);
                    }
                    backward(task.seed + step, plain, sharded);
                    optimizer.step();
                    shards.step();
                    optimizer.zeroGrad();
                    plain.parameters().forEach(p -> p.mutable_grad().reset());
                    shards.zeroGrad();
                    sharded.parameters().forEach(p -> p.mutable_grad().reset());
                }
                assertSame(plain, sharded, RTOL, sharding.toString());
                var again = assertThrows(
                        IllegalArgumentException.class, () -> shards.add(only(sharded, "fc1.weight"), COURSE));
                assertEquals("parameter fc1.weight is already in this optimizer", again.getMessage());
                var renamed = assertThrows(
                        IllegalArgumentException.class,
                        () -> shards.add(
                                Map.of("other", sharded.namedParameters().get("fc1.weight")), COURSE));
                assertEquals("parameter other is already in this optimizer, as fc1.weight", renamed.getMessage());
            }
        }
    }

    private static void rejectedLearningRate(ProcessGroup group, ShardingTask task) {
        AdamWSettings withoutDecay = COURSE.withWeightDecay(0);
        try (var model = toy(task, true);
                var shards = new ShardedOptimizer<>(
                        only(model, "fc3.weight"), AdamW::new, withoutDecay, group, SHARDINGS.get(0))) {
            shards.add(only(model, "fc1.weight"), COURSE);
            assertThrows(IllegalArgumentException.class, () -> shards.setLearningRate(20)); // the second group decays
            assertEquals(COURSE.learningRate(), shards.learningRate(), "of the first group");
        }
    }

    /** Creating the last rank's optimizer fails for a group, which is then added again with other settings. */
    private static void failingAdd(ProcessGroup group, ShardingTask task) {
        int last = group.size() - 1;
        AdamWSettings invalid = COURSE.withLearningRate(0.5);
        BiFunction<Map<String, Tensor>, AdamWSettings, Optimizer> factory = (parameters, options) -> {
            if (options.equals(invalid) && group.rank() == last) {
                throw new IllegalStateException("no memory");
            }
            return new AdamW(parameters, options);
        };
        for (Sharding sharding : SHARDINGS) {
            try (var plain = toy(task, false);
                    var sharded = toy(task, false);
                    var start = toy(task, false);
                    var optimizer = new AdamW(plain.namedParameters(), COURSE);
                    var shards =
                            new ShardedOptimizer<>(only(sharded, "fc3.weight"), factory, COURSE, group, sharding)) {
                Map<String, Tensor> more = only(sharded, "fc1.weight", "fc2.weight", "fc2.bias");
                long[] bytes = shards.shardBytes();
                var failure = assertThrows(RuntimeException.class, () -> shards.add(more, invalid));
                assertEquals(
                        group.rank() == last
                                ? "no memory"
                                : "the optimizer of rank " + last
                                        + " could not be created: java.lang.IllegalStateException: no memory",
                        failure.getMessage());
                assertEquals(
                        List.of("fc3.weight"), List.copyOf(shards.parameters().keySet()));
                assertEquals(Arrays.toString(bytes), Arrays.toString(shards.shardBytes()));
                more.forEach((name, parameter) ->
                        assertEquals(parameter.nbytes(), parameter.storage().nbytes(), name + " has its own memory"));
                assertSame(start, sharded, 0, "values do not change");
                assertThrows(
                        RuntimeException.class, () -> new ShardedOptimizer<>(more, factory, invalid, group, sharding));
                shards.add(more, COURSE);
                for (int step = 0; step < 3; step++) {
                    backward(task.seed + step, plain, sharded);
                    optimizer.step();
                    shards.step();
                    optimizer.zeroGrad();
                    shards.zeroGrad();
                }
                assertSame(plain, sharded, RTOL, sharding.toString());
                assertEquals(
                        shards.parameters().values().stream()
                                .mapToLong(Tensor::nbytes)
                                .sum(),
                        Arrays.stream(shards.shardBytes()).sum());
            }
        }
    }

    /** A step is skipped, because its norm is not finite; the model's gradients are discarded. */
    private static void skippedStep(ProcessGroup group, ShardingTask task) {
        for (Sharding sharding : SHARDINGS) {
            try (var model = toy(task, false);
                    var shards = new ShardedOptimizer<>(model.namedParameters(), AdamW::new, COURSE, group, sharding)) {
                backward(task.seed, model);
                model.parameters().forEach(parameter -> {
                    if (parameter.grad().defined()) {
                        parameter.grad().fill_(new Scalar(Double.NaN));
                    }
                });
                assertTrue(Double.isNaN(shards.gradientNorm().item_double()));
                model.zeroGrad();
                backward(task.seed, model);
                double norm = GradientClipping.norm(model.parameters()).item_double();
                assertEquals(norm, shards.gradientNorm().item_double(), 1e-6 * norm);
                shards.clipGradients(1e-3 * norm);
                shards.zeroGrad();
                backward(task.seed, model);
                assertEquals(norm, shards.gradientNorm().item_double(), 1e-6 * norm, "after clipped gradients");
            }
        }
    }

    private static void scheduleAndClipping(ProcessGroup group, ShardingTask task) {
        var schedule = new CosineSchedule(0.1, 0.01, 2, 8);
        double maxNorm = 1e-3;
        for (Sharding sharding : SHARDINGS) {
            try (var plain = toy(task, true);
                    var sharded = toy(task, true);
                    var optimizer = new AdamW(plain.namedParameters(), COURSE.withEps(1e-2));
                    var shards = new ShardedOptimizer<>(
                            sharded.namedParameters(), AdamW::new, COURSE.withEps(1e-2), group, sharding)) {
                for (int step = 0; step < STEPS; step++) {
                    backward(task.seed + step, plain, sharded);
                    optimizer.setLearningRate(schedule.at(step));
                    shards.setLearningRate(schedule.at(step));
                    double norm = GradientClipping.clipByGlobalNorm(plain.parameters(), maxNorm)
                            .item_double();
                    assertTrue(norm > maxNorm, "nothing was clipped");
                    assertEquals(norm, shards.clipGradients(maxNorm).item_double(), 1e-6 * norm);
                    optimizer.step();
                    shards.step();
                    optimizer.zeroGrad();
                    shards.zeroGrad();
                    assertEquals(schedule.at(step), shards.learningRate());
                }
                // The norm is summed in another order, so its last bit may differ.
                assertTrue(distance(plain, sharded) < 1e-5, () -> sharding + ": " + distance(plain, sharded));
            }
        }
    }

    private static void overlap(ProcessGroup group, ShardingTask task) {
        for (ModelEdition edition : ModelEdition.values()) {
            TransformerConfig config = TransformerConfig.builder()
                    .edition(edition)
                    .vocabSize(50)
                    .contextLength(16)
                    .dModel(32)
                    .numLayers(3)
                    .numHeads(4)
                    .dFf(48)
                    .build();
            Torch.seed(task.seed);
            try (var plain = new TransformerLM(config, device)) {
                Torch.seed(task.seed);
                try (var sharded = new TransformerLM(config, device);
                        var optimizer = new AdamW(plain.namedParameters(), COURSE.withLearningRate(1e-2));
                        var shards = new ShardedOptimizer<>(
                                sharded.namedParameters(),
                                AdamW::new,
                                COURSE.withLearningRate(1e-2),
                                group,
                                Sharding.allGather(0.01))) {
                    shards.overlapWith(sharded);
                    for (int step = 0; step < 4; step++) {
                        for (NnModule model : List.of(plain, sharded)) {
                            Torch.seed(task.seed + step);
                            Tensor ids = torch.randint(50, new long[] {2, 17}, device.options(DType.INT64));
                            Losses.crossEntropy(model.forward(ids.narrow(1, 0, 16)), ids.narrow(1, 1, 16))
                                    .backward();
                        }
                        optimizer.step();
                        shards.step();
                        optimizer.zeroGrad();
                        shards.zeroGrad();
                    }
                    shards.awaitParameters();
                    assertSame(plain, sharded, RTOL, edition.toString());
                }
            }
        }
    }

    /**
     * Rank 1 starts its all-gathers only after rank 0 has returned from its half of the second step, or after a time
     * limit. Without overlap rank 0 cannot return before that.
     */
    private static void waiting(ProcessGroup group, ShardingTask task) throws Exception {
        if (device.isCuda()) {
            return; // the GPU waits instead of the host
        }
        List<Boolean> seenByRank1 = new ArrayList<>();
        for (boolean overlaps : new boolean[] {false, true}) {
            Path returned = Path.of(task.folder, group.size() + (overlaps ? "-overlaps" : "-waits"));
            try (var model = toy(task, false);
                    var shards = new ShardedOptimizer<>(
                            model.namedParameters(), AdamW::new, COURSE, group, Sharding.allGather(0.01))) {
                if (overlaps) {
                    shards.overlapWith(model);
                }
                backward(task.seed, model);
                shards.step();
                shards.zeroGrad();
                backward(task.seed + 1, model);
                shards.update();
                if (group.rank() == 1) {
                    seenByRank1.add(appears(returned, overlaps ? RETURNS_WITHIN_MS : WAITS_MS));
                }
                shards.synchronize();
                if (group.rank() == 0) {
                    Files.createFile(returned);
                }
            }
        }
        // No rank leaves the check earlier, since all must call the same collectives.
        assertEquals(
                group.rank() == 1 ? List.of(false, true) : List.of(), seenByRank1, "whether rank 0 returned first");
    }

    /** Waits until a file exists, at most for a time, and returns whether it does. */
    private static boolean appears(Path file, long limitMs) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(limitMs);
        while (!Files.exists(file)) {
            if (System.nanoTime() >= end) {
                return false;
            }
            Thread.sleep(2);
        }
        return true;
    }

    private static void withoutGradient(ProcessGroup group, ShardingTask task) {
        for (Sharding sharding : SHARDINGS) {
            try (var model = toy(task, false);
                    var before = toy(task, false);
                    var shards = new ShardedOptimizer<>(model.namedParameters(), AdamW::new, COURSE, group, sharding)) {
                shards.step();
                assertEquals(0, distance(before, model), sharding.toString());
                backward(task.seed, model);
                model.namedParameters().get("fc1.weight").mutable_grad().reset();
                shards.step();
                assertSame(before.layers().get(1), model.layers().get(1), 0, sharding.toString());
                assertTrue(distance(before, model) > 0);
                assertFalse(shards.wholeState().containsKey("fc1.weight.m"));
            }
        }
    }

    /** A step count has the shape [1], like the shard of the last rank. */
    private static void shardOfOneElement(ProcessGroup group, ShardingTask task) {
        long elements = (group.size() - 1L) * FlatLayout.ALIGNMENT + 1;
        Torch.seed(task.seed);
        Tensor initial = torch.randn(new long[] {elements}, device.options(DType.FLOAT32));
        Tensor gradient = torch.randn(new long[] {elements}, device.options(DType.FLOAT32));
        for (Sharding sharding : SHARDINGS) {
            Map<String, Tensor> parameters = Map.of("w", initial.clone().set_requires_grad(true));
            Map<String, Tensor> same = Map.of("w", initial.clone().set_requires_grad(true));
            try (var shards = new ShardedOptimizer<>(parameters, AdamW::new, COURSE, group, sharding);
                    var alone = new AdamW(same, COURSE)) {
                for (int step = 0; step < 2; step++) {
                    parameters.get("w").mutable_grad().put(gradient);
                    same.get("w").mutable_grad().put(gradient);
                    shards.step();
                    alone.step();
                }
                Map<String, Tensor> whole = shards.wholeState();
                alone.state().forEach((key, tensor) -> {
                    if (group.rank() == 0) {
                        assertArrayEquals(
                                Tensors.toDoubles(tensor),
                                Tensors.toDoubles(whole.get(key)),
                                RTOL,
                                sharding + ", " + key);
                    }
                });
                shards.loadState(alone.state());
            }
        }
    }

    /** Training continues from a checkpoint as if never interrupted, also with another sharding and on fewer ranks. */
    private static void checkpoints(ProcessGroup group, ShardingTask task) throws IOException {
        for (int s = 0; s < SHARDINGS.size(); s++) {
            Path file = checkpoint(task, group.size(), s);
            try (var model = toy(task, true);
                    var shards = new ShardedOptimizer<>(
                            model.namedParameters(), AdamW::new, COURSE, group, SHARDINGS.get(s))) {
                train(model, shards, task, 0, 3);
                shards.save(file, model.namedParameters(), Map.of("step", "3"));
                assertTrue(Files.exists(file));
                train(model, shards, task, 3, 5);
                resume(task, file, model, group, SHARDINGS.get((s + 1) % SHARDINGS.size()));
                Path ofFour = checkpoint(task, 4, s);
                boolean afterFour = group.size() < 4 && group.backend() == CollectiveBackend.GLOO;
                if (afterFour) {
                    resume(task, ofFour, model, group, SHARDINGS.get(s));
                }
                var error = assertThrows(
                        IOException.class,
                        () -> shards.save(Path.of("/proc/nothing/here"), model.namedParameters(), Map.of()));
                assertTrue(error.getMessage().startsWith("checkpoint /proc/nothing/here could not be written"));
            }
        }
    }

    static Path checkpoint(ShardingTask task, int ranks, int sharding) {
        return Path.of(task.folder, ranks + "-ranks-" + SHARDINGS.get(sharding) + sharding + ".safetensors");
    }

    /**
     * Loads a checkpoint of three steps into a new model, trains two more steps, and compares with uninterrupted
     * training.
     */
    private static void resume(ShardingTask task, Path file, NnModule expected, ProcessGroup group, Sharding sharding)
            throws IOException {
        try (var resumed = toy(new ShardingTask(task.seed + 77, ""), true);
                var optimizer =
                        new ShardedOptimizer<>(resumed.namedParameters(), AdamW::new, COURSE, group, sharding)) {
            train(resumed, optimizer, task, 8, 9); // so that there is state to replace
            assertEquals(Map.of("step", "3"), Checkpoint.load(file, resumed.namedParameters(), optimizer));
            train(resumed, optimizer, task, 3, 5);
            assertSame(expected, resumed, RTOL, file.getFileName() + " into " + sharding);
        }
    }

    /** Continues from a checkpoint of three steps without shards, and compares with uninterrupted training. */
    static void resumeAlone(ShardingTask task, Path file) throws IOException {
        try (var scope = MemoryScope.open();
                var expected = toy(task, true);
                var resumed = toy(new ShardingTask(task.seed + 77, ""), true);
                var whole = new AdamW(expected.namedParameters(), COURSE);
                var optimizer = new AdamW(resumed.namedParameters(), COURSE)) {
            train(expected, whole, task, 0, 5);
            Checkpoint.load(file, resumed.namedParameters(), optimizer);
            train(resumed, optimizer, task, 3, 5);
            assertSame(expected, resumed, RTOL, file.getFileName().toString());
        }
    }

    private static void train(NnModule model, Optimizer optimizer, ShardingTask task, int from, int until) {
        for (int step = from; step < until; step++) {
            backward(task.seed + step, model);
            optimizer.step();
            optimizer.zeroGrad();
        }
    }

    private static void invalidState(ProcessGroup group, ShardingTask task) {
        for (Sharding sharding : SHARDINGS) {
            try (var model = toy(task, false);
                    var plain = toy(task, false);
                    var optimizer = new AdamW(plain.namedParameters(), COURSE);
                    var shards = new ShardedOptimizer<>(model.namedParameters(), AdamW::new, COURSE, group, sharding)) {
                train(plain, optimizer, task, 0, 1);
                train(model, shards, task, 0, 2);
                Map<String, Tensor> good = optimizer.state();
                assertRejected(
                        shards,
                        with(good, "x.m", good.get("fc1.weight.m")),
                        "state has x.m, but there is no parameter x");
                assertRejected(
                        shards,
                        with(good, "fc1.weight.m", good.get("fc3.weight.m")),
                        "state fc1.weight.m must have the parameter's shape [10, 10], not [5, 50]");
                assertRejected(shards, without(good, "fc3.weight.v"), "state of fc3.weight is incomplete");
                train(model, shards, task, 2, 3);
                var counts = shards.wholeState();
                if (group.rank() == 0) {
                    assertEquals(3, counts.get("fc1.weight.step").item_long());
                }
                shards.loadState(good);
                counts = shards.wholeState();
                assertEquals(group.rank() == 0, counts.containsKey("fc1.weight.step"));
                if (group.rank() == 0) {
                    assertEquals(1, counts.get("fc1.weight.step").item_long());
                }
            }
        }
    }

    private static Map<String, Tensor> with(Map<String, Tensor> state, String key, Tensor tensor) {
        var changed = new LinkedHashMap<>(state);
        changed.put(key, tensor);
        return changed;
    }

    private static Map<String, Tensor> without(Map<String, Tensor> state, String key) {
        var changed = new LinkedHashMap<>(state);
        changed.remove(key);
        return changed;
    }

    private static void assertRejected(ShardedOptimizer<?> shards, Map<String, Tensor> state, String message) {
        var error = assertThrows(IllegalArgumentException.class, () -> shards.loadState(state));
        assertTrue(error.getMessage().startsWith(message), error.getMessage());
    }

    private static void differentParameters(ProcessGroup group, ShardingTask task) {
        if (group.size() > 1) {
            requireSameParameters(group);
        }
        for (Map<String, Tensor> invalid : List.of(
                Map.of("w", torch.ones(new long[] {3}, device.options(DType.INT64))),
                Map.of(
                        "w",
                        torch.ones(new long[] {2, 3}, device.options(DType.FLOAT32))
                                .t()))) {
            var untrainable = assertThrows(
                    IllegalArgumentException.class,
                    () -> new ShardedOptimizer<>(invalid, AdamW::new, COURSE, group, Sharding.broadcast()));
            assertEquals("parameter w must be a contiguous floating-point tensor", untrainable.getMessage());
        }
        Tensor closed = torch.ones(new long[] {3}, device.options(DType.FLOAT32));
        closed.close();
        assertThrows(
                IllegalArgumentException.class,
                () -> new ShardedOptimizer<>(Map.of("w", closed), AdamW::new, COURSE, group, Sharding.broadcast()));
    }

    private static void requireSameParameters(ProcessGroup group) {
        boolean last = group.rank() == group.size() - 1;
        var parameters = new LinkedHashMap<String, Tensor>();
        parameters.put("a", torch.zeros(new long[] {2, 3}, device.options(DType.FLOAT32)));
        parameters.put("b", torch.zeros(new long[] {last ? 5 : 4}, device.options(DType.FLOAT32)));
        var error = assertThrows(
                IllegalArgumentException.class,
                () -> new ShardedOptimizer<>(parameters, AdamW::new, COURSE, group, Sharding.broadcast()));
        assertEquals(
                "tensor 1 is b fp32[4] frozen on rank 0, but b fp32[5] frozen on rank " + (group.size() - 1)
                        + "; all ranks must have the same model",
                error.getMessage());
    }

    /** Ranks without a shard must throw too, and not enter a collective that other ranks never call. */
    private static void closedOrEmpty(ProcessGroup group, ShardingTask task) {
        for (Sharding sharding : SHARDINGS) {
            var alone = Map.of("w", torch.ones(new long[] {3}, device.options(DType.FLOAT32)));
            var shards = new ShardedOptimizer<>(alone, AdamW::new, COURSE, group, sharding);
            shards.close();
            shards.close();
            Map<String, Runnable> calls = Map.of(
                    "step()",
                    shards::step,
                    "zeroGrad()",
                    shards::zeroGrad,
                    "clipGradients()",
                    () -> shards.clipGradients(1),
                    "wholeState()",
                    shards::wholeState,
                    "loadState()",
                    () -> shards.loadState(Map.of()),
                    "add()",
                    () -> shards.add(Map.of(), COURSE));
            calls.forEach((name, call) -> assertEquals(
                    name + " was called on a closed optimizer; create a new one",
                    assertThrows(IllegalStateException.class, call::run).getMessage()));
            try (var none = new ShardedOptimizer<>(Map.of(), AdamW::new, COURSE, group, sharding)) {
                none.step();
                var error = assertThrows(IllegalArgumentException.class, () -> none.clipGradients(1));
                assertEquals("there are no parameters to clip", error.getMessage());
            }
        }
    }

    /** Two parameters of 400 bytes do not fit into a bucket of 500 bytes, but their 200 elements would. */
    private static void bucketSize(ProcessGroup group, ShardingTask task) {
        Map<String, Tensor> parameters = new TreeMap<>();
        for (String name : List.of("a", "b")) {
            Tensor ones = torch.ones(new long[] {100}, device.options(DType.FLOAT32));
            parameters.put(name, ones.set_requires_grad(true));
        }
        try (var shards = new ShardedOptimizer<>(parameters, AdamW::new, COURSE, group, SMALL_BUCKETS)) {
            long before = group.traffic().of("all-gather").calls();
            shards.step();
            assertEquals(2, group.traffic().of("all-gather").calls() - before);
        }
    }

    private static void bytes(ProcessGroup group, ShardingTask task) {
        int n = group.size();
        for (Sharding sharding : SHARDINGS) {
            try (var model = toy(task, false);
                    var shards = new ShardedOptimizer<>(model.namedParameters(), AdamW::new, COURSE, group, sharding)) {
                backward(task.seed, model);
                Traffic before = group.traffic();
                shards.step();
                Traffic sent = group.traffic().since(before);
                long trainable = model.parameters().stream()
                        .filter(Tensor::requires_grad)
                        .mapToLong(Tensor::nbytes)
                        .sum();
                if (sharding instanceof Sharding.Broadcast) {
                    assertEquals(
                            "{broadcast=Volume[calls=3, bytes=" + trainable + "]}",
                            sent.byOperation().toString());
                    assertEquals((n - 1.0) / n * trainable, sent.leastSent(n), 1e-9);
                } else {
                    long all = Arrays.stream(shards.shardBytes()).sum();
                    assertEquals(
                            List.of("all-gather"),
                            new ArrayList<>(sent.byOperation().keySet()));
                    long gathered = sent.of("all-gather").bytes();
                    assertTrue(gathered >= all && gathered < all + 3 * 32 * (n + 2), gathered + " for " + all);
                }
            }
        }
    }
}
