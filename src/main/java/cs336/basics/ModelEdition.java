package cs336.basics;

import java.util.Arrays;
import java.util.stream.Collectors;

/** The Transformer language models of the course, by year. */
public enum ModelEdition {
    /**
     * Learned position embeddings, a feed-forward layer of two matrices with GELU, output head tied to the token
     * embeddings.
     */
    SPRING_2024(2024, 2),
    /** Rotary position embeddings, a SwiGLU feed-forward layer of three matrices, separate output head. */
    SPRING_2025(2025, 3);

    private final int year;
    private final int feedForwardMatrices;

    ModelEdition(int year, int feedForwardMatrices) {
        this.year = year;
        this.feedForwardMatrices = feedForwardMatrices;
    }

    /** Returns the year of the course. */
    public int year() {
        return year;
    }

    /** Returns the number of matrices in a feed-forward layer. */
    public int feedForwardMatrices() {
        return feedForwardMatrices;
    }

    /**
     * Returns the model of a year.
     *
     * @throws IllegalArgumentException if there is none; the message lists the known years
     */
    public static ModelEdition ofYear(int year) {
        for (ModelEdition edition : values()) {
            if (edition.year == year) {
                return edition;
            }
        }
        String known = Arrays.stream(values()).map(edition -> "" + edition.year).collect(Collectors.joining(", "));
        throw new IllegalArgumentException("year " + year + " has no model; known: " + known);
    }
}
