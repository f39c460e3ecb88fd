package cs336.distributed.bench;

import java.io.Serializable;
import java.util.List;

/**
 * What {@link AllReduceRank} is to measure.
 *
 * @param bytes sizes of the tensor on each rank, multiples of 4
 * @param warmup steps before timing begins
 * @param steps timed steps
 * @param seconds about how long the timed steps of one size may take
 * @param nodes how many machines the ranks only pretend to be on; 0 where the world says on how many they are
 * @param storage where rank 0 stores what was measured; null for nowhere
 */
public record AllReducePlan(List<Long> bytes, int warmup, int steps, double seconds, int nodes, MeasurementFile storage)
        implements Serializable {
    /** Keeps a copy of the sizes. */
    public AllReducePlan {
        bytes = List.copyOf(bytes);
    }

    /** 5 + 20 steps of each size, or as many as fit into a second, and nothing stored. */
    public static AllReducePlan of(Long... bytes) {
        return new AllReducePlan(List.of(bytes), 5, 20, 1, 0, null);
    }
}
