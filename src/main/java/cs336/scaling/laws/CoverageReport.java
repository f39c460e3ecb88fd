package cs336.scaling.laws;

import static cs336.numbers.CalculatedResults.number;

import cs336.bench.Case;
import cs336.numbers.CalculatedResults;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.List;
import java.util.Map;

/**
 * A report on the {@link Coverage} of each method's intervals on generated runs.
 *
 * @param sets number of sets of runs
 * @param confidence confidence of the intervals
 * @param coverage counts by method, for the model size at the largest of {@link FitReport#DECADES}
 */
record CoverageReport(int sets, double confidence, Map<FitMethod, Coverage> coverage) {
    private static final double COMPUTE = FitReport.DECADES[FitReport.DECADES.length - 1];

    /** Draws sets of runs of {@link SyntheticRuns#SHIPPED} with different noise and fits each. */
    static CoverageReport of(int sets, Bootstrap bootstrap) {
        return new CoverageReport(
                sets, bootstrap.confidence(), Coverage.of(SyntheticRuns.SHIPPED, sets, COMPUTE, bootstrap));
    }

    /**
     * Prints the report and, if there is a name, stores its numbers.
     *
     * @param name name of the runs; null to store nothing
     */
    void write(PrintWriter out, String name, CalculatedResults stored) throws IOException {
        double trueParameters =
                SyntheticRuns.SHIPPED.surface().law().at(COMPUTE).parameters();
        out.printf(
                "%,d sets; percentage of %s %% intervals that contain the true value:%n",
                sets, FitReport.percent(confidence));
        for (FitMethod method : FitMethod.values()) {
            Coverage counted = coverage.get(method);
            out.printf(
                    "%-16s  exponent %.1f %%  size at %s %.1f %%%n",
                    method, 100 * counted.ofExponents(), IsoFlops.flop(COMPUTE), 100 * counted.ofParameters());
            if (name == null) {
                continue;
            }
            stored.put(
                    Case.measuredHere(method.toString()).with("runs", name).with("confidence", confidence),
                    List.of(
                            number("sets", "", sets),
                            number("exponent", "", counted.ofExponents()),
                            number("parameters", "", counted.ofParameters()),
                            number("true-parameters", "parameters", trueParameters)));
        }
    }
}
