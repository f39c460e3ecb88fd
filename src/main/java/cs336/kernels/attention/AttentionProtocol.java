package cs336.kernels.attention;

import cs336.bench.ArgumentCheck;
import cs336.bench.Case;
import cs336.bench.Metric;
import java.util.List;

/** A timing protocol of attention; each command uses one. {@link AttentionRun} explains the metrics. */
enum AttentionProtocol {
    /** A fixed number of passes, synchronized after each, and memory: command {@code attention}. */
    STOPWATCH("steps", AttentionRun.STOPWATCH_METRICS),
    /** Triton's {@code do_bench}: command {@code flash}. */
    DO_BENCH("rep", AttentionRun.DO_BENCH_METRICS),
    /** The course's leaderboard test by {@code do_bench}: command {@code leaderboard}. */
    LEADERBOARD("rep", AttentionRun.LEADERBOARD_METRICS);

    private static final List<String> DTYPES = List.of("fp32", "bf16", "fp16");
    private static final String SETTING = "protocol";

    private final String repetition;
    private final List<Metric> metrics;

    AttentionProtocol(String repetition, List<Metric> metrics) {
        this.repetition = repetition;
        this.metrics = metrics;
    }

    /** Returns the protocol of a case. */
    static AttentionProtocol of(Case c) {
        return valueOf(c.text(SETTING));
    }

    /**
     * Returns a case of a sweep. Its {@code device}, {@code warmup} and repetition ({@code steps} or {@code rep}) have
     * to be added, as parameters or as settings.
     *
     * @throws IllegalArgumentException if the dtype is none of fp32, bf16 and fp16
     */
    Case caseOf(AttentionCase attention) {
        ArgumentCheck.oneOf("dtype", attention.dtype(), DTYPES);
        return attention
                .addTo(Case.of(AttentionWorkload.class, attention.attention()))
                .setting(SETTING, name())
                .yields(metrics.toArray(Metric[]::new));
    }

    /**
     * Checks the warm-up and the repetition.
     *
     * @throws IllegalArgumentException if the warm-up is below 0 or the repetition below 1
     */
    void requireTiming(int warmup, int repeated) {
        ArgumentCheck.atLeast("--warmup", 0, warmup);
        ArgumentCheck.atLeast("--" + repetition, 1, repeated);
    }

    /** Returns the repetition of a case: timed passes, or milliseconds. */
    int repetition(Case c) {
        return c.integer(repetition);
    }
}
