package cs336.bench;

import java.io.Serializable;
import java.util.Objects;

/**
 * A measured quantity and its unit.
 *
 * @param name the value of the column {@code metric}: {@code forward}, {@code total}, {@code peak-memory} …
 * @param unit the value of the column {@code unit}: {@code ms}, {@code bytes} …
 */
public record Metric(String name, String unit) implements Serializable {
    /** @throws IllegalArgumentException if the name or the unit contains a line break */
    public Metric {
        Objects.requireNonNull(name, "name must not be null");
        Objects.requireNonNull(unit, "unit must not be null");
        ArgumentCheck.oneLine("the name of a metric", name);
        ArgumentCheck.oneLine("the unit of a metric", unit);
    }

    /** Returns a metric for a time in milliseconds. */
    public static Metric ms(String name) {
        return new Metric(name, "ms");
    }

    /** Returns whether the values are times in milliseconds. */
    boolean isTime() {
        return unit.equals("ms");
    }

    /** Returns a metric for a number of bytes. */
    public static Metric bytes(String name) {
        return new Metric(name, "bytes");
    }
}
