package cs336.distributed.bench;

import cs336.distributed.collectives.ProcessGroup;

/** What counts of a number that each rank has measured: it is over only when it is over everywhere. */
final class Slowest {
    private Slowest() {}

    /** Each number as it was on the rank where it was largest. All ranks call it, with as many numbers. */
    static double[] of(ProcessGroup group, double[] mine) {
        double[] largest = mine.clone();
        for (double[] theirs : group.allGather(mine)) {
            for (int i = 0; i < largest.length; i++) largest[i] = Math.max(largest[i], theirs[i]);
        }
        return largest;
    }
}
