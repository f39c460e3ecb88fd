package cs336.bench;

/**
 * One row of the stored measurements, without the parameters of its case.
 *
 * @param metric the measured quantity
 * @param summary its statistics; null if the case failed or ran out of memory before it was measured
 * @param status the outcome of the measurement
 */
public record Measurement(Metric metric, Summary summary, Status status) {
    /** Returns a completed measurement. */
    public static Measurement of(Samples samples) {
        return new Measurement(samples.metric(), samples.summary(), Status.OK);
    }

    /** Returns a completed measurement of a metric with a single value. */
    public static Measurement once(String metric, String unit, double value) {
        return of(Samples.once(new Metric(metric, unit), value));
    }

    /** Returns a row for a metric that could not be measured. */
    public static Measurement missing(Metric metric, Status status) {
        return new Measurement(metric, null, status);
    }
}
