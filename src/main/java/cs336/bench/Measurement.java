package cs336.bench;

/**
 * One row of the stored measurements, beside the parameters of its case.
 *
 * @param metric what was measured
 * @param summary the numbers; null where there are none, because memory ran out or something failed
 * @param status how it ended
 */
public record Measurement(Metric metric, Summary summary, Status status) {
    /** What was measured in full. */
    public static Measurement of(Samples samples) {
        return new Measurement(samples.metric(), samples.summary(), Status.OK);
    }

    /** What could not be measured. */
    public static Measurement missing(Metric metric, Status status) {
        return new Measurement(metric, null, status);
    }
}
