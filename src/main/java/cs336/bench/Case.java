package cs336.bench;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Collectors;

/**
 * One point of a sweep: a workload with its parameters. Implementation and parameters identify a case. It is sent to a
 * child process as JSON, or to ranks in a binary format.
 *
 * <pre>{@code
 * Case.of(AttentionWorkload.class, "plain").with("d", 64).with("context", 1024).yields(Metric.ms("forward"));
 * }</pre>
 *
 * @param workload name of the {@link Workload} class that runs the case; empty if the case is not part of a sweep
 * @param implementation the measured implementation: {@code plain}, {@code fused}, {@code compiled} …
 * @param parameters the first columns of the stored measurements, in this order
 * @param settings further inputs of the workload, which do not identify the case, such as the device
 * @param metrics the metrics that the workload records; if a case fails, each missing metric is stored as a row with
 *     the status
 */
public record Case(
        String workload,
        String implementation,
        Map<String, String> parameters,
        Map<String, String> settings,
        List<Metric> metrics)
        implements Serializable {
    /** @throws IllegalArgumentException if the implementation, a parameter or its name contains a line break */
    public Case {
        Objects.requireNonNull(implementation, "implementation must not be null");
        Objects.requireNonNull(metrics, "metrics must not be null");
        Objects.requireNonNull(parameters, "parameters must not be null");
        Objects.requireNonNull(settings, "settings must not be null");
        parameters = Collections.unmodifiableMap(new LinkedHashMap<>(parameters));
        settings = Collections.unmodifiableMap(new LinkedHashMap<>(settings));
        metrics = List.copyOf(metrics);
        ArgumentCheck.oneLine("implementation", implementation);
        parameters.forEach((name, value) -> {
            ArgumentCheck.oneLine("the name of a parameter", name);
            ArgumentCheck.oneLine("parameter " + name, value);
        });
    }

    /** Returns a case without parameters. */
    public static Case of(Class<? extends Workload> workload, String implementation) {
        return new Case(workload.getName(), implementation, Map.of(), Map.of(), List.of());
    }

    /**
     * Returns a case without parameters that the calling code measures itself, without a sweep or a {@link Workload}.
     */
    public static Case measuredHere(String implementation) {
        return new Case("", implementation, Map.of(), Map.of(), List.of());
    }

    /** Returns the same case of another implementation. */
    public Case withImplementation(String name) {
        return new Case(workload, name, parameters, settings, metrics);
    }

    /** Returns the same case with a parameter added, or replaced if the case has one of this name. */
    public Case with(String parameter, Object value) {
        Objects.requireNonNull(parameter, "parameter must not be null");
        return new Case(workload, implementation, plus(parameters, parameter, value), settings, metrics);
    }

    /** Returns the same case with a setting added, or replaced if the case has one of this name. */
    public Case setting(String name, Object value) {
        return new Case(workload, implementation, parameters, plus(settings, name, value), metrics);
    }

    /** Returns the same case with additional metrics. */
    public Case yields(Metric... more) {
        Objects.requireNonNull(more, "more must not be null");
        var all = new ArrayList<>(metrics);
        Collections.addAll(all, more);
        return new Case(workload, implementation, parameters, settings, all);
    }

    /**
     * Returns the value of a parameter or a setting.
     *
     * @throws IllegalArgumentException if the case has neither a parameter nor a setting of that name
     */
    public String text(String name) {
        String value = parameters.getOrDefault(name, settings.get(name));
        if (value == null) {
            throw new IllegalArgumentException(
                    "the case has no parameter or setting '" + name + "'; it has " + parameters + " and " + settings);
        }
        return value;
    }

    /**
     * Returns the value of a parameter or a setting as an integer.
     *
     * @throws IllegalArgumentException if it is missing or not an integer
     */
    public int integer(String name) {
        String text = text(name);
        try {
            return Integer.parseInt(text);
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException("parameter " + name + " must be an integer, not '" + text + "'", e);
        }
    }

    /** Returns implementation and parameters for messages, as in {@code plain size=small context=128}. */
    @Override
    public String toString() {
        return parameters.entrySet().stream()
                .map(p -> p.getKey() + "=" + p.getValue())
                .collect(Collectors.joining(" ", implementation + " ", ""));
    }

    private static Map<String, String> plus(Map<String, String> map, String key, Object value) {
        Objects.requireNonNull(value, () -> "value of " + key + " must not be null");
        var more = new LinkedHashMap<>(map);
        more.put(key, text(value));
        return more;
    }

    /** Returns the text of a value; a whole number has no decimals, even if it is a double. */
    static String text(Object value) {
        return value instanceof Double d && d == Math.rint(d) && Math.abs(d) < Long.MAX_VALUE
                ? String.valueOf(d.longValue())
                : String.valueOf(value);
    }
}
