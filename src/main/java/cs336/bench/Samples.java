package cs336.bench;

import java.util.List;
import java.util.Objects;

/**
 * The measured values of a metric, in the order in which they were measured.
 *
 * @param metric the measured quantity
 * @param values one value for each step, at least one
 */
public record Samples(Metric metric, List<Double> values) {
    /** @throws IllegalArgumentException if there are no values */
    public Samples {
        Objects.requireNonNull(values, "values must not be null");
        values = List.copyOf(values);
        if (values.isEmpty()) {
            throw new IllegalArgumentException("samples of " + metric.name() + " are empty");
        }
    }

    /** Returns the single sample of a metric that is read once, such as peak memory. */
    public static Samples once(Metric metric, double value) {
        return new Samples(metric, List.of(value));
    }

    /** Returns the statistics of the values. */
    public Summary summary() {
        return Summary.of(values.stream().mapToDouble(Double::doubleValue).toArray());
    }
}
