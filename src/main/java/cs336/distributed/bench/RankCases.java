package cs336.distributed.bench;

import cs336.bench.Case;
import cs336.bench.ModelCases;
import cs336.bench.ModelOptions;
import cs336.bench.Precision;
import cs336.distributed.collectives.CollectiveBackend;

/** Cases of a model that several ranks train. */
final class RankCases {
    private RankCases() {}

    /**
     * The case of a model in a mode.
     *
     * @param nodes machines that take part, or pose as such
     * @param megabytes of a bucket; 0 where there are none
     * @param round tells rounds apart that are measured in turn with a peer
     */
    static Case of(
            ModelOptions.Model model,
            Precision precision,
            CollectiveBackend backend,
            int nodes,
            int processes,
            Object mode,
            double megabytes,
            int round) {
        return ModelCases.measuredHere(model, precision)
                .with("backend", backend)
                .with("nodes", nodes)
                .with("processes", processes)
                .with("mode", mode)
                .with("bucket_mb", megabytes == Math.rint(megabytes) ? (Object) (long) megabytes : megabytes)
                .with("round", round);
    }

    /** Millions of bytes in a bucket; 0 where there are none. */
    static double megabytes(Case c) {
        return Double.parseDouble(c.text("bucket_mb"));
    }
}
