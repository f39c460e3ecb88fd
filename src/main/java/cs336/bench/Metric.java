package cs336.bench;

import java.io.Serializable;

/**
 * What is measured, and in what.
 *
 * @param name as it stands in the column {@code metric}: {@code forward}, {@code total}, {@code peak-memory} …
 * @param unit {@code ms}, {@code bytes} …
 */
public record Metric(String name, String unit) implements Serializable {
    /** A time in milliseconds. */
    public static Metric ms(String name) {
        return new Metric(name, "ms");
    }

    /** An amount of memory in bytes. */
    public static Metric bytes(String name) {
        return new Metric(name, "bytes");
    }
}
