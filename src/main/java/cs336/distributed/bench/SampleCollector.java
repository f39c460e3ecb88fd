package cs336.distributed.bench;

import cs336.bench.Metric;
import cs336.bench.Samples;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The samples of one case, collected over several rounds. */
final class SampleCollector {
    private final Map<Metric, List<Double>> values = new LinkedHashMap<>();

    /** Adds a value of a metric. */
    void add(Metric metric, double value) {
        values.computeIfAbsent(metric, m -> new ArrayList<>()).add(value);
    }

    /** Replaces all values of a metric, for metrics that are the same in each round. */
    void set(Metric metric, List<Double> all) {
        values.put(metric, all);
    }

    /** Returns the samples of all metrics, in the order in which the metrics were first added. */
    List<Samples> samples() {
        List<Samples> samples = new ArrayList<>();
        values.forEach((metric, all) -> samples.add(new Samples(metric, all)));
        return samples;
    }
}
