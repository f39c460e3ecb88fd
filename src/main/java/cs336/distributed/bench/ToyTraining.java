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
 * The course's test of data parallelism. Each rank begins with weights of its own and trains a {@link ToyModel} on its
 * share of a batch of 20 random examples; beside it, alone, it trains a copy of rank 0's model on the whole batch. SGD,
 * mean squared error, the examples in another order at each step.
 */
public final class ToyTraining implements RankProgram<ToyTraining.Task, ToyTraining.Outcomes> {
    private static final int EXAMPLES = 20;
    private static final double LEARNING_RATE = 0.1;

    /**
     * What to train.
     *
     * @param strategy how gradients come together
     * @param dtype {@code fp32}, {@code fp64} …
     * @param steps of SGD
     * @param seed of weights and data
     */
    public record Task(Strategy strategy, String dtype, int steps, long seed) implements Serializable {}

    /** What came of both models on one rank. */
    public record Outcomes(Outcome plain, Outcome tied) implements Serializable {}

    /**
     * What came of a model on one rank.
     *
     * @param before largest difference of a weight from single-process training's before any weight was sent; 0 on rank
     *     0
     * @param differences the same after they were, and after each step
     */
    public record Outcome(double before, List<Double> differences) implements Serializable {
        /** The largest of the differences. */
        public double largest() {
            return differences.stream().mapToDouble(Double::doubleValue).max().orElseThrow();
        }
    }

    @Override
    public Outcomes run(ProcessGroup group, Task task) {
        return new Outcomes(train(group, task, false), train(group, task, true));
    }

    private static Outcome train(ProcessGroup group, Task task, boolean tied) {
        if (EXAMPLES % group.size() != 0) {
            throw new IllegalArgumentException(
                    "processes must divide the batch of " + EXAMPLES + " examples; " + group.size() + " do not");
        }
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
                int share = EXAMPLES / group.size();
                for (int step = 0; step < task.steps; step++) {
                    Tensor order = rotated(step, group);
                    Tensor x = inputs.index_select(0, order);
                    Tensor y = targets.index_select(0, order);
                    long from = (long) share * group.rank();
                    torch.mse_loss(ddp.forward(x.narrow(0, from, share)), y.narrow(0, from, share))
                            .backward();
                    ddp.finishGradientSynchronization();
                    step(optimizer);
                    torch.mse_loss(alone.forward(x), y).backward();
                    step(optimizerAlone);
                    differences.add(difference(model, alone));
                }
            }
            return new Outcome(before, differences);
        }
    }

    private static ToyModel rank0(Task task, boolean tied, ProcessGroup group, DType dtype) {
        Torch.seed(task.seed);
        return new ToyModel(tied, group.device(), dtype);
    }

    private static void step(Optimizer optimizer) {
        optimizer.step();
        optimizer.zeroGrad();
    }

    /** Every rank gets other examples at each step: 7 and 20 have no divisor in common. */
    private static Tensor rotated(int step, ProcessGroup group) {
        long[] order = LongStream.range(0, EXAMPLES)
                .map(i -> (7 * i + 3L * step) % EXAMPLES)
                .toArray();
        return Tensors.of(order, EXAMPLES).to(group.device().toTorch(), DType.INT64.scalarType());
    }

    /** The largest difference of a parameter's number, frozen ones included. */
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
