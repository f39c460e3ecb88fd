package cs336.distributed.training;

import static cs336.distributed.training.RankChecks.require;
import static cs336.distributed.training.RankChecks.requireRejected;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.Linear;
import cs336.basics.Losses;
import cs336.basics.ModelEdition;
import cs336.basics.NnModule;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.distributed.bench.ToyModel;
import cs336.distributed.bench.ToyTraining;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.launch.FailingWellTest;
import cs336.distributed.launch.RankProgram;
import cs336.torch.Backward;
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
import java.util.Map;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The checks of {@link DistributedDataParallelTest} on several ranks, in one run. The result maps the name of each
 * check to its failure, or to an empty text. Most checks compute in fp64, so that an error cannot be mistaken for
 * rounding.
 */
public final class DdpChecks implements RankProgram<Long, LinkedHashMap<String, String>> {
    private static final double EXACT = 1e-12;
    private static final DType FP64 = DType.FLOAT64;
    private static final List<Strategy> STRATEGIES = List.of(
            Strategy.naive(),
            Strategy.flat(),
            Strategy.overlapped(),
            Strategy.bucketed(0.0016),
            Strategy.bucketed(0.0001),
            Strategy.bucketed(0.01));

    private final LinkedHashMap<String, String> wrong = new LinkedHashMap<>();
    private ProcessGroup group;
    private Device device;
    private long seed;

    private interface DdpCheck {
        void run(Strategy strategy);
    }

    @Override
    public LinkedHashMap<String, String> run(ProcessGroup all, Long anySeed) {
        group = all;
        device = all.device();
        seed = anySeed;
        each("both toy models train as in a single process, five times in a row", this::toy);
        each("a Transformer trains as in a single process", this::transformer);
        each("all ranks start with the parameters of rank 0", this::begin);
        each("all ranks start with the buffers of rank 0, and copy them again on request", this::buffers);
        each(
                "a parameter that some ranks use gets their sum over all ranks; an unused one gets no gradient",
                this::unused);
        each("ranks whose gradients are ready in different orders agree", this::otherOrder);
        each("in the first step the backward pass of a fast rank waits", this::fastRank);
        each("backward passes in noSync accumulate", this::accumulation);
        each("several forward passes may precede a backward pass", this::severalForwards);
        each("weighted losses average over all examples of an uneven batch", this::uneven);
        each("gradients are views of their buckets", this::views);
        each("steps leak no native objects", this::leaks);
        each("training continues after a failed backward pass", this::failedBackward);
        each("invalid calls are rejected", this::invalidCalls);
        each("a step before the average is noticed, whichever parameters have gradients", this::earlyStep);
        each("a sparse gradient is rejected by name", this::sparse);
        each("ranks with different strategies are rejected", this::differentStrategies);
        each("models that differ in number, shapes or dtypes of parameters are rejected", this::differentModels);
        return wrong;
    }

    private void each(String name, DdpCheck check) {
        wrong.put(name, "");
        for (Strategy strategy : STRATEGIES) {
            try (var scope = MemoryScope.open()) {
                check.run(strategy);
            } catch (AssertionError e) {
                wrong.merge(name, strategy + " on rank " + group.rank() + ": " + e.getMessage() + "\n", String::concat);
            }
        }
    }

    private static void requireNear(double difference, String of) {
        require(difference <= EXACT, of + " differs by " + difference);
    }

    private static double difference(Tensor a, Tensor b) {
        return a.sub(b).abs().max().item_double();
    }

    private void buffers(Strategy strategy) {
        try (var model = new RankChecks.WithBuffers(5 + group.rank(), device);
                var ddp = new DistributedDataParallel(model, group, strategy)) {
            model.require(5, 5, 5, "at first");
            Tensor x = torch.full(new long[] {2, 3}, new Scalar(1 + group.rank()), device.options(FP64));
            Backward.of(ddp.forward(x).sum()).run();
            ddp.finishGradientSynchronization();
            model.require(6 + group.rank(), 6, 5, "after a pass");
            ddp.broadcastBuffers();
            model.require(6, 6, 5, "copied again");
        }
    }

    private void toy(Strategy strategy) {
        for (int run = 0; run < 5; run++) {
            var outcomes = new ToyTraining().run(group, new ToyTraining.ToyTask(strategy, "fp64", 5, seed + 100 * run));
            for (var outcome : List.of(outcomes.plain(), outcomes.tied())) {
                require((outcome.before() > 0.01) == (group.rank() > 0), "weights differ by " + outcome.before());
                require(
                        outcome.differences().size() == 6,
                        "steps: " + outcome.differences().size());
                requireNear(outcome.largest(), "a weight");
            }
        }
    }

    private void transformer(Strategy strategy) {
        TransformerConfig config = RankChecks.tinyModel(ModelEdition.SPRING_2024, 2); // a tied head
        Torch.seed(seed + group.rank());
        int each = 2;
        try (var model = new TransformerLM(config, device, FP64);
                var ddp = new DistributedDataParallel(model, group, strategy)) {
            Torch.seed(seed);
            try (var alone = new TransformerLM(config, device, FP64);
                    var optimizer = new AdamW(model.namedParameters(), AdamWSettings.of(0.01));
                    var optimizerAlone = new AdamW(alone.namedParameters(), AdamWSettings.of(0.01))) {
                Batches batches = Batches.random(17, each * group.size(), 6, device, seed);
                for (int step = 0; step < 3; step++) {
                    Batches.Batch batch = batches.next();
                    long from = (long) each * group.rank();
                    Tensor logits = ddp.forward(batch.inputs().narrow(0, from, each));
                    Losses.crossEntropy(logits, batch.targets().narrow(0, from, each))
                            .backward();
                    ddp.finishGradientSynchronization();
                    optimizer.step();
                    optimizer.zeroGrad();
                    Losses.crossEntropy(alone.forward(batch.inputs()), batch.targets())
                            .backward();
                    optimizerAlone.step();
                    optimizerAlone.zeroGrad();
                    // AdamW divides by √v, which amplifies rounding errors of small gradients.
                    double difference = ToyTraining.difference(model, alone);
                    require(difference < 1e-9, "a weight differs by " + difference + " after step " + step);
                }
            }
        }
    }

    /** A model whose loss uses any subset of its parameters a, b and c. */
    private static final class Branches extends NnModule {
        final Tensor a;
        final Tensor b;
        final Tensor c;
        final Tensor frozen;

        Branches(Device device) {
            a = parameter("a", random(device, 3));
            b = parameter("b", random(device, 200));
            c = parameter("c", random(device, 3));
            frozen = parameter("frozen", random(device, 3));
            frozen.set_requires_grad(false);
        }

        private static Tensor random(Device device, long... shape) {
            return torch.randn(shape, device.options(FP64));
        }

        @Override
        protected Tensor compute(Tensor x) {
            return x.mul(a.sum().add(b.sum()));
        }

        /** Runs the backward pass of {@code weight · Σ p}, whose gradient is {@code weight}. */
        void backward(double weight, Tensor... used) {
            try (var scope = MemoryScope.open()) {
                Tensor sum = used[0].sum();
                for (int i = 1; i < used.length; i++) {
                    sum = sum.add(used[i].sum());
                }
                Backward.of(sum.mul(new Scalar(weight))).run();
            }
        }

        /** Returns the common value of a gradient's elements; NaN if there is no gradient. */
        static double gradient(Tensor parameter) {
            if (!parameter.grad().defined()) {
                return Double.NaN;
            }
            double[] all = Tensors.toDoubles(parameter.grad());
            // Elements may be summed over ranks in different orders.
            boolean equal = Arrays.stream(all).allMatch(value -> Math.abs(value - all[0]) <= EXACT);
            return equal ? all[0] : Double.POSITIVE_INFINITY;
        }

        static void requireGradient(Tensor parameter, double expected, String name) {
            double got = gradient(parameter);
            boolean equal = Double.isNaN(expected) ? Double.isNaN(got) : Math.abs(got - expected) <= EXACT;
            require(equal, "gradient of " + name + " is " + got + ", not " + expected);
        }
    }

    private Branches branches(long anySeed) {
        Torch.seed(anySeed);
        return new Branches(device);
    }

    private void begin(Strategy strategy) {
        try (var mine = branches(seed + group.rank());
                var rank0 = branches(seed)) {
            require((difference(mine.a, rank0.a) > 0) == (group.rank() > 0), "parameters are equal before");
            new DistributedDataParallel(mine, group, strategy).close();
            Map<String, Tensor> expected = new LinkedHashMap<>(rank0.namedParameters());
            Map<String, Tensor> got = new LinkedHashMap<>(mine.namedParameters());
            require(got.size() == 4, "only " + got.keySet());
            expected.forEach((name, tensor) -> require(difference(tensor, got.get(name)) == 0, name + " differs"));
        }
    }

    private void unused(Strategy strategy) {
        int last = group.size() - 1;
        double n = group.size();
        try (var model = branches(seed);
                var ddp = new DistributedDataParallel(model, group, strategy)) {
            for (int step = 0; step < 3; step++) {
                // Only the last rank uses b; no rank uses c, except rank 0 in step 1, when it uses all parameters.
                boolean usesAll = group.rank() == 0 && step == 1;
                List<Tensor> used = new ArrayList<>(List.of(model.a));
                if (group.rank() == last || usesAll) {
                    used.add(model.b);
                }
                if (usesAll) {
                    used.add(model.c);
                }
                model.backward(1 + group.rank(), used.toArray(Tensor[]::new));
                ddp.finishGradientSynchronization();
                Branches.requireGradient(model.a, (n + 1) / 2, "a");
                Branches.requireGradient(model.b, (1 + last + (step == 1 && last > 0 ? 1 : 0)) / n, "b");
                Branches.requireGradient(model.c, step == 1 ? 1 / n : Double.NaN, "c");
                Branches.requireGradient(model.frozen, Double.NaN, "frozen");
                model.zeroGrad();
            }
            ddp.finishGradientSynchronization(); // no rank has data
            Branches.requireGradient(model.a, Double.NaN, "a");
        }
    }

    private void otherOrder(Strategy strategy) {
        try (var model = branches(seed);
                var ddp = new DistributedDataParallel(model, group, strategy)) {
            for (int step = 0; step < 4; step++) {
                Tensor first = (group.rank() + step) % 2 == 0 ? model.a : model.c;
                Tensor second = first == model.a ? model.c : model.a;
                Tensor loss = first.sum().mul(model.b.sum()).add(second.sum());
                Backward.of(loss).run();
                double expected = model.b.sum().item_double();
                ddp.finishGradientSynchronization();
                int aFirst = 0; // ranks where a is ready first
                for (int rank = 0; rank < group.size(); rank++) {
                    aFirst += (rank + step) % 2 == 0 ? 1 : 0;
                }
                double fraction = (double) aFirst / group.size();
                Branches.requireGradient(model.a, fraction * expected + (1 - fraction), "a");
                Branches.requireGradient(model.c, (1 - fraction) * expected + fraction, "c");
                model.zeroGrad();
            }
        }
    }

    /** Eight parameters of unique sizes, so that ranks compare each of their collectives. */
    private static final class EightParameters extends NnModule {
        EightParameters(Device device, int smallest) {
            for (int i = 0; i < 8; i++) {
                parameter("p" + i, Branches.random(device, smallest + i));
            }
        }

        @Override
        protected Tensor compute(Tensor x) {
            return parameters().stream().map(Tensor::sum).reduce(x, Tensor::add);
        }
    }

    private void fastRank(Strategy strategy) {
        if (group.size() == 1) {
            return; // no rank to wait for
        }
        double late = 1; // far longer than a backward pass on a busy machine
        try (var model = new EightParameters(device, 1000 + 10 * STRATEGIES.indexOf(strategy));
                var ddp = new DistributedDataParallel(model, group, strategy)) {
            double[] seconds = new double[2];
            for (int step = 0; step < 2; step++) {
                Tensor loss = ddp.forward(torch.zeros(new long[] {}, device.options(FP64)));
                group.barrier();
                if (group.rank() == 1 && step == 0) {
                    pause(late);
                }
                long start = System.nanoTime();
                Backward.of(loss).run();
                seconds[step] = (System.nanoTime() - start) / 1e9;
                ddp.finishGradientSynchronization();
                model.parameters().forEach(p -> p.mutable_grad().reset());
            }
            if (group.rank() == 1) {
                return;
            }
            boolean waits = strategy.overlaps() && ddp.collectivesPerStep() > 2;
            require(
                    (seconds[0] > late / 2) == waits,
                    ddp.collectivesPerStep() + " collectives, " + Arrays.toString(seconds) + " s");
        }
    }

    private static void pause(double seconds) {
        try {
            Thread.sleep((long) (1e3 * seconds));
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private void accumulation(Strategy strategy) {
        double mean = (group.size() + 1) / 2.0;
        try (var model = branches(seed);
                var ddp = new DistributedDataParallel(model, group, strategy)) {
            for (int step = 0; step < 3; step++) {
                try (var accumulation = ddp.noSync()) {
                    model.backward(1 + group.rank(), model.a, model.c);
                    model.backward(10 * (1 + group.rank()), model.a);
                    Branches.requireGradient(model.a, 11 * (1 + group.rank()), "a before");
                }
                model.backward(100 * (1 + group.rank()), model.a, model.b);
                ddp.finishGradientSynchronization();
                Branches.requireGradient(model.a, 111 * mean, "a");
                Branches.requireGradient(model.b, 100 * mean, "b");
                Branches.requireGradient(model.c, mean, "c"); // not part of the last backward pass
                if (step == 1) { // an averaged gradient that is not zeroed stays, and the next one is added
                    model.backward(1 + group.rank(), model.a);
                    ddp.finishGradientSynchronization();
                    Branches.requireGradient(model.a, 112 * mean, "a kept");
                    Branches.requireGradient(model.b, 100 * mean, "b kept");
                }
                model.zeroGrad();
            }
        }
    }

    private void severalForwards(Strategy strategy) {
        try (var model = branches(seed);
                var ddp = new DistributedDataParallel(model, group, strategy)) {
            Tensor one = torch.full(new long[] {1}, new Scalar(1.0 + group.rank()), device.options(FP64));
            for (int step = 0; step < 2; step++) {
                Backward.of(ddp.forward(one).add(ddp.forward(one)).sum()).run();
                ddp.finishGradientSynchronization();
                Branches.requireGradient(model.b, group.size() + 1, "b");
                model.zeroGrad();
            }
        }
    }

    private void uneven(Strategy strategy) {
        if (group.size() == 1) {
            return; // there are no examples at all
            // Rank r has r examples, rank 0 none; the gradient of example i of all is i.
        }
        int n = group.rank();
        int before = n * (n - 1) / 2;
        int all = group.size() * (group.size() - 1) / 2;
        try (var model = branches(seed);
                var ddp = new DistributedDataParallel(model, group, strategy)) {
            double weight = ddp.weight(n);
            double mean = before + (n - 1) / 2.0;
            if (n > 0) {
                model.backward(weight * mean, model.a);
            }
            ddp.finishGradientSynchronization();
            Branches.requireGradient(model.a, (all - 1) / 2.0, "a");
        }
    }

    private void views(Strategy strategy) {
        try (var model = new ToyModel(true, device, FP64);
                var ddp = new DistributedDataParallel(model, group, strategy)) {
            List<Tensor> trainable =
                    model.parameters().stream().filter(Tensor::requires_grad).toList();
            require(trainable.size() == 4, "trainable parameters: " + trainable.size());
            ddp.forward(torch.randn(new long[] {2, ToyModel.IN}, device.options(FP64)))
                    .sum()
                    .backward();
            ddp.finishGradientSynchronization();
            int expected = 4;
            if (strategy instanceof Strategy.Flat || strategy.equals(Strategy.bucketed(0.01))) {
                expected = strategy instanceof Strategy.Flat ? 1 : 2; // fc5, fc3 and fc2 have 10,000 bytes; fc1 has 800
                long base = trainable.get(3).grad().data_ptr().address();
                long next = trainable.get(2).grad().data_ptr().address();
                require(
                        next - base == 250 * Double.BYTES,
                        "fc3's gradient is " + (next - base) + " bytes after that of fc5");
            }
            require(ddp.collectivesPerStep() == expected, "collectives: " + ddp.collectivesPerStep());
        }
    }

    private void leaks(Strategy strategy) {
        try (var model = branches(seed);
                var ddp = new DistributedDataParallel(model, group, strategy)) {
            long before = 0;
            for (int step = 0; step < 40; step++) {
                if (step == 10) {
                    before = Pointer.totalCount();
                }
                try (var scope = MemoryScope.open()) {
                    model.backward(1, model.a, model.b);
                    ddp.finishGradientSynchronization();
                    model.zeroGrad();
                }
            }
            long more = Pointer.totalCount() - before;
            require(more <= 5, more + " more after 30 steps"); // other threads create objects too
        }
    }

    private void failedBackward(Strategy strategy) {
        try (var model = branches(seed);
                var ddp = new DistributedDataParallel(model, group, strategy)) {
            for (int step = 0; step < 4; step++) {
                boolean onAll = step == 2;
                if (onAll || step == 0 && group.rank() == group.size() - 1) {
                    failBackward(model);
                } else {
                    model.backward(1 + group.rank(), model.a, model.b, model.c);
                }
                ddp.finishGradientSynchronization();
                if (step % 2 == 1) {
                    double mean = 1 + (group.size() - 1) / 2.0;
                    Branches.requireGradient(model.a, mean, "a");
                    Branches.requireGradient(model.b, mean, "b");
                    Branches.requireGradient(model.c, mean, "c");
                }
                model.zeroGrad();
            }
        }
    }

    /** Runs a backward pass that fails after it has reached some parameters. */
    private static void failBackward(Branches model) {
        try (var scope = MemoryScope.open()) {
            Tensor failing = new FailingWellTest.Faulty().apply(model.b.sum())[0];
            Backward.of(model.c.sum().add(failing).add(model.a.sum())).run();
        } catch (RuntimeException e) {
            require(e.toString().contains("no gradient today"), "exception: " + e);
            return;
        }
        throw new AssertionError("the backward pass did not fail");
    }

    private void invalidCalls(Strategy strategy) {
        try (var model = branches(seed);
                var ddp = new DistributedDataParallel(model, group, strategy)) {
            try (var accumulation = ddp.noSync()) {
                requireRejected(ddp::finishGradientSynchronization, "inside noSync()");
                requireRejected(ddp::noSync, "noSync() was called inside noSync()");
                accumulation.close();
                try (var second = ddp.noSync()) {
                    accumulation.close();
                    requireRejected(ddp::finishGradientSynchronization, "inside noSync()");
                }
            }
            model.frozen.set_requires_grad(true);
            requireRejected(ddp::finishGradientSynchronization, "parameter frozen requires a gradient");
            model.frozen.set_requires_grad(false);
            requireClosedIsRejected(model, strategy);
            if (!strategy.overlaps()) {
                return;
            }
            for (int step = 0; step < 20; step++) { // while the communication thread is busy
                model.backward(1, model.a, model.b, model.c);
                requireRejected(
                        () -> model.backward(1, model.a, model.b, model.c),
                        "before finishGradientSynchronization(); run all but the last one of a step in noSync()");
                requireRejected(ddp::noSync, "was called after collectives of this step started");
                ddp.finishGradientSynchronization();
                Branches.requireGradient(model.a, 1, "a");
                Branches.requireGradient(model.b, 1, "b");
                Branches.requireGradient(model.c, 1, "c");
                model.zeroGrad();
            }
            model.backward(1, model.a);
            ddp.finishGradientSynchronization();
            Branches.requireGradient(model.a, 1, "a afterwards");
            List<Tensor> parameters = model.parameters();
            requireRejected(
                    () -> ddp.gradientsReady(List.of(parameters.get(0), parameters.get(0))),
                    "before finishGradientSynchronization()");
            ddp.finishGradientSynchronization();
        }
    }

    private void earlyStep(Strategy strategy) {
        if (strategy.overlaps()) {
            return;
        }
        try (var model = branches(seed);
                var ddp = new DistributedDataParallel(model, group, strategy)) {
            for (Tensor used : List.of(model.a, model.b)) {
                for (Tensor usedNext : List.of(model.a, model.b, model.c)) {
                    model.backward(1, used);
                    model.backward(1, usedNext); // without a step: gradients accumulate
                    try (var noGrad = NoGrad.open()) {
                        used.add_(new Scalar(1.0)); // a step of an optimizer
                    }
                    model.zeroGrad();
                    requireRejected(
                            () -> model.backward(1, usedNext),
                            "parameters changed after a backward pass before finishGradientSynchronization(); call it"
                                    + " before the optimizer's step");
                    ddp.finishGradientSynchronization();
                    model.zeroGrad();
                    model.backward(1, used);
                    ddp.finishGradientSynchronization();
                    Branches.requireGradient(used, 1, "the used parameter");
                    model.zeroGrad();
                }
            }
        }
    }

    /** Token embeddings with sparse gradients. */
    private static final class SparseEmbedding extends NnModule {
        private final Tensor weight;

        SparseEmbedding(Device device) {
            weight = parameter("weight", Branches.random(device, 4, 2));
        }

        @Override
        protected Tensor compute(Tensor ids) {
            return torch.embedding(weight, ids, -1, false, true);
        }
    }

    private void sparse(Strategy strategy) {
        try (var model = new Parent(new SparseEmbedding(device));
                var ddp = new DistributedDataParallel(model, group, strategy)) {
            Tensor ids = torch.zeros(new long[] {3}, device.options(DType.INT64));
            Backward.of(ddp.forward(ids).sum()).run();
            requireRejected(
                    ddp::finishGradientSynchronization,
                    "the gradient of parameter inner.weight is sparse; only dense gradients can be averaged");
            if (!strategy.overlaps()) { // else the communication thread has failed
                model.zeroGrad();
                Tensor weight = model.parameters().get(0);
                Backward.of(weight.sum().mul(new Scalar(1.0 + group.rank()))).run();
                ddp.finishGradientSynchronization();
                Branches.requireGradient(weight, (group.size() + 1) / 2.0, "inner.weight");
            }
        }
    }

    private void differentStrategies(Strategy strategy) {
        int last = group.size() - 1;
        if (last == 0 || strategy instanceof Strategy.Naive) {
            return;
        }
        try (var model = new ScalarParameters(2, FP64)) {
            Strategy mine = group.rank() == last ? Strategy.naive() : strategy;
            requireRejected(
                    () -> new DistributedDataParallel(model, group, mine).close(),
                    "strategy 0 is " + strategy + " on rank 0, but naive on rank " + last);
        }
    }

    private void requireClosedIsRejected(Branches model, Strategy strategy) {
        var closed = new DistributedDataParallel(model, group, strategy);
        closed.close();
        closed.close();
        requireRejected(closed::finishGradientSynchronization, "was called on a closed container");
        requireRejected(closed::noSync, "was called on a closed container");
        var other = new ScalarParameters(1, DType.FLOAT32);
        try (var ddp = new DistributedDataParallel(other, group, strategy)) {
            other.close();
            requireRejected(ddp::finishGradientSynchronization, "ScalarParameters is closed");
        }
        try (var parent = new Parent(new ScalarParameters(1, DType.FLOAT32));
                var ddp = new DistributedDataParallel(parent, group, strategy)) {
            parent.children().get(0).close();
            requireRejected(ddp::finishGradientSynchronization, "inner is closed");
        }
        var linear = new Linear(2, 2, device, FP64);
        try (linear;
                var ddp = new DistributedDataParallel(linear, group, strategy)) {
            linear.adapt(new Linear(2, 2, device, FP64));
            requireRejected(ddp::finishGradientSynchronization, "has parameters that it did not have");
            linear.removeAdapter();
            ddp.finishGradientSynchronization();
        }
    }

    /** A layer around another one. */
    private static final class Parent extends NnModule {
        private final NnModule inner;

        Parent(NnModule inner) {
            this.inner = child("inner", inner);
        }

        @Override
        protected Tensor compute(Tensor x) {
            return inner.forward(x);
        }
    }

    /** Parameters p0, p1, … of one element each. */
    private final class ScalarParameters extends NnModule {
        ScalarParameters(int count, DType dtype) {
            for (int i = 0; i < count; i++) {
                parameter("p" + i, torch.zeros(new long[] {1}, device.options(dtype)));
            }
        }

        @Override
        protected Tensor compute(Tensor x) {
            return x;
        }
    }

    private void differentModels(Strategy strategy) {
        if (group.size() == 1) {
            return;
        }
        int last = group.size() - 1;
        boolean isLast = group.rank() == last;
        requireDifferent(
                new ToyModel(isLast, device, FP64),
                strategy,
                "tensor 4 is fc3.weight fp64[5, 50] on rank 0, but fc3.weight fp64[10, 50] on rank " + last);
        requireDifferent(
                new ScalarParameters(isLast ? 1 : 2, FP64),
                strategy,
                "tensor 1 is p1 fp64[1] on rank 0, but none on rank " + last);
        requireDifferent(
                new ScalarParameters(1, isLast ? DType.FLOAT32 : FP64),
                strategy,
                "tensor 0 is p0 fp64[1] on rank 0, but p0 fp32[1] on rank " + last);
    }

    private void requireDifferent(NnModule mine, Strategy strategy, String message) {
        try (mine) {
            requireRejected(() -> new DistributedDataParallel(mine, group, strategy).close(), message);
        }
    }
}
