package cs336.distributed.bench;

import cs336.bench.ArgumentCheck;
import java.io.Serializable;
import java.util.List;

/**
 * The options of an all-reduce benchmark, as every rank receives them.
 *
 * @param bytes sizes of the tensor on each rank, positive multiples of 4
 * @param warmup untimed steps of each size, at least {@value #LEAST_WARMUP}
 * @param steps timed steps of each size, at least {@value AllReduceBenchmark#LEAST_STEPS}
 * @param seconds approximate time limit in seconds for the timed steps of one size, above 0; with NCCL the all-reduces
 *     that run back to back may take as long again
 * @param nodes number of emulated nodes; 0 if the nodes are real
 * @param storage the file for the measurements; null if nothing is stored
 */
public record AllReducePlan(List<Long> bytes, int warmup, int steps, double seconds, int nodes, MeasurementFile storage)
        implements Serializable {
    static final int LEAST_WARMUP = 2;

    /**
     * Copies the sizes and checks all numbers.
     *
     * @throws IllegalArgumentException if one is out of range
     */
    public AllReducePlan {
        bytes = List.copyOf(bytes);
        for (long size : bytes) {
            if (!isSize(size)) {
                throw new IllegalArgumentException("bytes must be positive multiples of 4, not " + size);
            }
        }
        requireInRange("", warmup, steps, seconds);
    }

    /** Returns whether a tensor of fp32 elements can have this number of bytes. */
    static boolean isSize(long bytes) {
        return bytes > 0 && bytes % Float.BYTES == 0;
    }

    /**
     * Checks the numbers of a plan.
     *
     * @param prefix the part before each name in an error, such as {@code --} for options
     * @throws IllegalArgumentException if one is out of range
     */
    static void requireInRange(String prefix, int warmup, int steps, double seconds) {
        ArgumentCheck.atLeast(prefix + "warmup", LEAST_WARMUP, warmup);
        ArgumentCheck.atLeast(prefix + "steps", AllReduceBenchmark.LEAST_STEPS, steps);
        if (!(seconds > 0)) {
            throw new IllegalArgumentException(prefix + "seconds must be above 0, not " + seconds);
        }
    }

    /**
     * Returns a plan that stores nothing: 5 untimed and 20 timed steps of each size, or fewer if they exceed one
     * second.
     *
     * @param bytes sizes of the tensor on each rank, positive multiples of 4
     */
    public static AllReducePlan of(Long... bytes) {
        return new AllReducePlan(List.of(bytes), 5, 20, 1, 0, null);
    }
}
