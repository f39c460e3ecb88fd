package cs336.distributed.bench;

import cs336.bench.Case;
import java.io.Serializable;
import java.util.ArrayList;

/**
 * The argument of {@link DdpBenchmark} and {@link FsdpBenchmark}.
 *
 * @param training the cases to time
 * @param traceFolder folder for a trace of each case and rank; null to record none
 * @param tracedModes labels of the modes to record, such as {@code bucketed-25mb}; empty for all
 */
public record TracedPlan(TrainingPlan training, String traceFolder, ArrayList<String> tracedModes)
        implements Serializable {
    /** Returns whether traces of the case are requested. Steps without communication are never recorded. */
    boolean traces(Case c) {
        if (traceFolder == null || c.text("mode").equals(DdpBenchmark.NONE)) {
            return false;
        }
        return tracedModes.isEmpty() || tracedModes.contains(DdpBenchmark.label(c));
    }
}
