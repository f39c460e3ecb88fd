package cs336.bench;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * One point of a sweep: which workload, with which parameters. Parameters and implementation are its identity; a case
 * travels to its own process as JSON, or to ranks as an object.
 *
 * <pre>{@code
 * Case.of(AttentionWorkload.class, "plain").with("d", 64).with("context", 1024).yields(Metric.ms("forward"));
 * }</pre>
 *
 * @param workload name of the {@link Workload} class that runs it in a sweep; empty if none does
 * @param implementation what is measured: {@code plain}, {@code fused}, {@code compiled} …
 * @param parameters the first columns of the stored measurements, in this order
 * @param settings what the workload needs to know beside the parameters and what does not tell cases apart, such as the
 *     device
 * @param metrics what the workload records; those that a failed case did not reach get a row that says so
 */
public record Case(
        String workload,
        String implementation,
        Map<String, String> parameters,
        Map<String, String> settings,
        List<Metric> metrics)
        implements Serializable {
    public Case {
        parameters = Collections.unmodifiableMap(new LinkedHashMap<>(parameters));
        settings = Collections.unmodifiableMap(new LinkedHashMap<>(settings));
        metrics = List.copyOf(metrics);
    }

    /** A case without parameters yet. */
    public static Case of(Class<? extends Workload> workload, String implementation) {
        return new Case(workload.getName(), implementation, Map.of(), Map.of(), List.of());
    }

    /** A case without parameters yet whose measurer stores it without a sweep; no {@link Workload} runs it. */
    public static Case measuredHere(String implementation) {
        return new Case("", implementation, Map.of(), Map.of(), List.of());
    }

    /** The same case with one more parameter. */
    public Case with(String parameter, Object value) {
        return new Case(workload, implementation, plus(parameters, parameter, value), settings, metrics);
    }

    /** The same case with one more setting. */
    public Case setting(String name, Object value) {
        return new Case(workload, implementation, parameters, plus(settings, name, value), metrics);
    }

    /** The same case that records these metrics too. */
    public Case yields(Metric... more) {
        var all = new ArrayList<>(metrics);
        Collections.addAll(all, more);
        return new Case(workload, implementation, parameters, settings, all);
    }

    /**
     * A parameter or a setting.
     *
     * @throws IllegalArgumentException if the case has neither of that name
     */
    public String text(String name) {
        String value = parameters.getOrDefault(name, settings.get(name));
        if (value == null) {
            throw new IllegalArgumentException("the case has no " + name + ", only " + parameters + " and " + settings);
        }
        return value;
    }

    /** A parameter or a setting that is a whole number. */
    public int integer(String name) {
        return Integer.parseInt(text(name));
    }

    /** {@code plain size=small context=128}, for progress and messages. */
    @Override
    public String toString() {
        return parameters.entrySet().stream()
                .map(p -> p.getKey() + "=" + p.getValue())
                .collect(Collectors.joining(" ", implementation + " ", ""));
    }

    private static Map<String, String> plus(Map<String, String> map, String key, Object value) {
        var more = new LinkedHashMap<>(map);
        more.put(key, String.valueOf(value));
        return more;
    }
}
