package cs336.distributed.bench;

import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Reduction;
import cs336.distributed.launch.RankProgram;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.function.UnaryOperator;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A program that runs every collective once, on tensors small enough to read. Before each collective, rank r of n holds
 * the n elements 10r, 10r + 1, …; before the all-gather only the first of them.
 */
public final class CollectiveTour implements RankProgram<Integer, ArrayList<CollectiveTour.TourStop>> {
    /**
     * The effect of one collective on one rank.
     *
     * @param collective name of the collective
     * @param before the rank's tensor before the collective
     * @param after the rank's tensor after it
     */
    public record TourStop(String collective, List<Double> before, List<Double> after) implements Serializable {
        /** Copies the lists. */
        public TourStop {
            before = List.copyOf(before);
            after = List.copyOf(after);
        }
    }

    /**
     * Runs all collectives and returns their effects on this rank.
     *
     * @param root the rank that broadcasts
     */
    @Override
    public ArrayList<TourStop> run(ProcessGroup group, Integer root) {
        var tour = new ArrayList<TourStop>();
        int n = group.size();
        for (Reduction reduction : Reduction.values()) {
            String name = "all-reduce, " + reduction.name().toLowerCase(Locale.ROOT);
            tour.add(stop(group, name, n, tensor -> {
                group.allReduce(tensor, reduction);
                return tensor;
            }));
        }
        tour.add(stop(group, "broadcast from rank " + root, n, tensor -> {
            group.broadcast(tensor, root);
            return tensor;
        }));
        tour.add(stop(group, "all-gather", 1, tensor -> {
            Tensor all = torch.empty(new long[] {n}, group.device().options(DType.FLOAT32), null);
            group.allGather(all, tensor);
            return all;
        }));
        tour.add(stop(group, "reduce-scatter, sum", n, tensor -> {
            Tensor shard = torch.empty(new long[] {1}, group.device().options(DType.FLOAT32), null);
            group.reduceScatter(shard, tensor, Reduction.SUM);
            return shard;
        }));
        group.barrier();
        return tour;
    }

    private static TourStop stop(ProcessGroup group, String name, int elements, UnaryOperator<Tensor> collective) {
        try (var scope = MemoryScope.open()) {
            Tensor tensor = torch.arange(
                    new Scalar(10.0 * group.rank()),
                    new Scalar(10.0 * group.rank() + elements),
                    group.device().options(DType.FLOAT32));
            List<Double> before = values(tensor);
            return new TourStop(name, before, values(collective.apply(tensor)));
        }
    }

    private static List<Double> values(Tensor tensor) {
        return Arrays.stream(Tensors.toDoubles(tensor)).boxed().toList();
    }
}
