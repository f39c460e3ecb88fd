package cs336.bench;

import java.util.List;

/**
 * The values that one metric took, in the order in which they were measured.
 *
 * @param metric what was measured
 * @param values one a step; at least one
 */
public record Samples(Metric metric, List<Double> values) {
    public Samples {
        values = List.copyOf(values);
        if (values.isEmpty()) throw new IllegalArgumentException("samples of " + metric.name() + " are empty");
    }

    /** A metric that was read once, such as the peak of memory. */
    public static Samples once(Metric metric, double value) {
        return new Samples(metric, List.of(value));
    }

    /** Number, mean, spread and extremes. */
    public Summary summary() {
        return Summary.of(values.stream().mapToDouble(Double::doubleValue).toArray());
    }
}
