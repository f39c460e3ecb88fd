package cs336.scaling;

import cs336.bench.ArgumentCheck;
import cs336.units.Bytes;

/**
 * A collective operation and the bytes that each rank sends in it. The payload S is the whole tensor: the reduced
 * tensor, the result of a gather, or the input of a scatter.
 *
 * <p>In an all-gather every rank must receive the (n−1)/n·S bytes that it does not have. A reduce-scatter is an
 * all-gather in reverse; an all-reduce is a reduce-scatter followed by an all-gather. A ring sends exactly these bytes
 * (Patarasuk and Yuan, 2009).
 */
public enum Collective {
    ALL_REDUCE("all-reduce", 2),
    ALL_GATHER("all-gather", 1),
    REDUCE_SCATTER("reduce-scatter", 1);

    private final String label;
    private final int passes;

    Collective(String label, int passes) {
        this.label = label;
        this.passes = passes;
    }

    /** Returns the number of times that the data go around the ring. */
    public int passes() {
        return passes;
    }

    /** Returns the bytes that each of n ranks, at least 1, sends in a ring. */
    public Bytes sent(Bytes payload, int ranks) {
        ArgumentCheck.atLeast("ranks", 1, ranks);
        return payload.times(passes / 2.0 * RingAllReduce.sent(ranks));
    }

    @Override
    public String toString() {
        return label;
    }
}
