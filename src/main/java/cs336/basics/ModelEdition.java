package cs336.basics;

import java.util.Arrays;
import java.util.stream.Collectors;

/** The two forms of the Transformer language model that the course has studied, named after their years. */
public enum ModelEdition {
    /**
     * Learned positions, a feed-forward layer of two matrices around GELU, output head tied to the token embeddings.
     */
    SPRING_2024(2024),
    /** Rotary positions, a feed-forward layer of three matrices (SwiGLU), an output head of its own. */
    SPRING_2025(2025);

    private final int year;

    ModelEdition(int year) {
        this.year = year;
    }

    /** The year of the course. */
    public int year() {
        return year;
    }

    /**
     * The form of a year.
     *
     * @throws IllegalArgumentException if that year has none; the message lists those there are
     */
    public static ModelEdition ofYear(int year) {
        for (ModelEdition edition : values()) {
            if (edition.year == year) {
                return edition;
            }
        }
        String known = Arrays.stream(values()).map(f -> "" + f.year).collect(Collectors.joining(", "));
        throw new IllegalArgumentException("year " + year + " has no form of the model; known: " + known);
    }
}
