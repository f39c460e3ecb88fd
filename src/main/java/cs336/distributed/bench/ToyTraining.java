package cs336.distributed.bench;

import cs336.basics.NnModule;
import cs336.basics.Optimizer;
import cs336.basics.Sgd;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.launch.RankProgram;
import cs336.distributed.training.DistributedDataParallel;
import cs336.distributed.training.Strategy;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.stream.LongStream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The course's correctness test of data parallelism. Each rank starts with different weights and trains a
 * {@link ToyModel} data-parallel on its shard of a batch of 20 random examples. For comparison it also trains a copy of
 * rank 0's model on the whole batch in a single process. The optimizer is SGD, the loss the mean squared error, and the
 * examples are permuted in each step.
 */
public final class ToyTraining implements RankProgram<ToyTraining.ToyTask, ToyTraining.Outcomes> {
    static final int EXAMPLES = 20;
    private static final double LEARNING_RATE = 0.1;

    /**
     * The training to run.
     *
     * @param strategy the strategy that averages gradients
     * @param dtype dtype of the model: {@code fp32}, {@code fp64} …
     * @param steps number of SGD steps
     * @param seed seed of weights and data
     */
    public record ToyTask(Strategy strategy, String dtype, int steps, long seed) implements Serializable {}

    /** The differences of both models on one rank. */
    public record Outcomes(WeightDifferences plain, WeightDifferences tied) implements Serializable {}

    /**
     * The largest absolute differences of a rank's weights from single-process training.
     *
     * @param before difference before the initial broadcast; 0 on rank 0
     * @param differences differences after the broadcast and after each step
     */
    public record WeightDifferences(double before, List<Double> differences) implements Serializable {
        /** Returns the largest difference after the broadcast. */
        public double largest() {
            return differences.stream().mapToDouble(Double::doubleValue).max().orElseThrow();
        }
    }

    /** Trains both models and returns their differences on this rank. */
    @Override
    public Outcomes run(ProcessGroup group, ToyTask task) {
        return new Outcomes(train(group, task, false), train(group, task, true));
    }

    /**
     * Checks that each rank gets the same number of examples.
     *
     * @throws IllegalArgumentException if the number of processes does not divide the batch size
     */
    static void requireDivisor(int processes) {
        if (EXAMPLES % processes != 0) {
            throw new IllegalArgumentException(
                    "--processes must divide the toy model's batch size " + EXAMPLES + ", not be " + processes);
        }
    }

    private static WeightDifferences train(ProcessGroup group, ToyTask task, boolean tied) {
        requireDivisor(group.size());
        DType dtype = DType.parse(task.dtype);
        Torch.seed(task.seed + group.rank());
        try (var model = new ToyModel(tied, group.device(), dtype);
                var alone = rank0(task, tied, group, dtype);
                var scope = MemoryScope.open()) {
            double before = difference(model, alone);
            Tensor inputs = torch.randn(
                    new long[] {EXAMPLES, ToyModel.IN}, group.device().options(dtype));
            Tensor targets = torch.randn(
                    new long[] {EXAMPLES, ToyModel.OUT}, group.device().options(dtype));
            group.broadcast(inputs, 0);
            group.broadcast(targets, 0);
            List<Double> differences = new ArrayList<>();
            try (var ddp = new DistributedDataParallel(model, group, task.strategy);
                    var optimizer = new Sgd(model.namedParameters(), LEARNING_RATE, 0);
                    var optimizerAlone = new Sgd(alone.namedParameters(), LEARNING_RATE, 0)) {
                differences.add(difference(model, alone));
                int shard = EXAMPLES / group.size();
                for (int step = 0; step < task.steps; step++) {
                    Tensor order = permutation(step, group);
                    Tensor x = inputs.index_select(0, order);
                    Tensor y = targets.index_select(0, order);
                    long from = (long) shard * group.rank();
                    torch.mse_loss(ddp.forward(x.narrow(0, from, shard)), y.narrow(0, from, shard))
                            .backward();
                    ddp.finishGradientSynchronization();
                    step(optimizer);
                    torch.mse_loss(alone.forward(x), y).backward();
                    step(optimizerAlone);
                    differences.add(difference(model, alone));
                }
            }
            return new WeightDifferences(before, differences);
        }
    }

    private static ToyModel rank0(ToyTask task, boolean tied, ProcessGroup group, DType dtype) {
        Torch.seed(task.seed);
        return new ToyModel(tied, group.device(), dtype);
    }

    private static void step(Optimizer optimizer) {
        optimizer.step();
        optimizer.zeroGrad();
    }

    /** Returns the order of the examples in a step, a permutation because 7 and 20 are coprime. */
    private static Tensor permutation(int step, ProcessGroup group) {
        long[] order = LongStream.range(0, EXAMPLES)
                .map(i -> (7 * i + 3L * step) % EXAMPLES)
                .toArray();
        return Tensors.of(order, EXAMPLES).to(group.device().toTorch(), DType.INT64.scalarType());
    }

    /** Returns the largest absolute difference between the parameters of two models, frozen ones included. */
    public static double difference(NnModule a, NnModule b) {
        double largest = 0;
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Iterator<Tensor> others = b.parameters().iterator();
            for (Tensor parameter : a.parameters()) {
                double most = parameter.sub(others.next()).abs().max().item_double();
                largest = Math.max(largest, most);
            }
        }
        return largest;
    }
}
