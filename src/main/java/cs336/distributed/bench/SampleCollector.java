package cs336.distributed.bench;

import cs336.bench.Metric;
import cs336.bench.Samples;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What has been measured of a case so far, turn after turn. */
final class SampleCollector {
    private final Map<Metric, List<Double>> values = new LinkedHashMap<>();

    /** One more value of a metric. */
    void add(Metric metric, double value) {
        values.computeIfAbsent(metric, m -> new ArrayList<>()).add(value);
    }

    /** The values of a metric that is the same in each turn, in place of those before. */
    void set(Metric metric, List<Double> all) {
        values.put(metric, all);
    }

    /** All of it, metric by metric in the order in which they came first. */
    List<Samples> samples() {
        List<Samples> samples = new ArrayList<>();
        values.forEach((metric, all) -> samples.add(new Samples(metric, all)));
        return samples;
    }
}
