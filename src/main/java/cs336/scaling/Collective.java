package cs336.scaling;

import cs336.bench.ArgumentCheck;
import cs336.units.Bytes;

/**
 * What ranks do together, and how many bytes that takes at least. The payload S is the whole tensor: what is reduced,
 * what all have after a gather, what all had before a scatter.
 *
 * <p>Every rank must receive (n−1)/n·S that it does not have, for a gather; a reduce-scatter is a gather backwards; an
 * all-reduce is both in turn. A ring sends exactly that (Patarasuk and Yuan, 2009).
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

    /** How often the data go round the ring. */
    public int passes() {
        return passes;
    }

    /** What each of n ranks sends for a payload, in a ring. */
    public Bytes sent(Bytes payload, int ranks) {
        ArgumentCheck.atLeast("ranks", 1, ranks);
        return payload.times(passes / 2.0 * RingAllReduce.sent(ranks));
    }

    @Override
    public String toString() {
        return label;
    }
}
