package cs336.basics;

import java.util.Arrays;
import java.util.stream.Collectors;

/** The five models of the course's table of sizes. Their vocabulary has 10,000 tokens. */
public enum ModelSize {
    SMALL("small", 768, 3072, 12, 12),
    MEDIUM("medium", 1024, 4096, 24, 16),
    LARGE("large", 1280, 5120, 36, 20),
    XL("xl", 1600, 6400, 48, 25),
    B2_7("2.7B", 2560, 10240, 32, 32);

    /** Vocabulary of every size. */
    public static final int VOCAB_SIZE = 10_000;

    private final String label;
    private final int dModel;
    private final int dFf;
    private final int numLayers;
    private final int numHeads;

    ModelSize(String label, int dModel, int dFf, int numLayers, int numHeads) {
        this.label = label;
        this.dModel = dModel;
        this.dFf = dFf;
        this.numLayers = numLayers;
        this.numHeads = numHeads;
    }

    /** The name in tables and on the command line: {@code small} … {@code 2.7B}. */
    public String label() {
        return label;
    }

    /** The 2025 form with a context of 1,024 positions, RMSNorm and plain attention. */
    public TransformerConfig config() {
        return config(ModelEdition.SPRING_2025, 1024);
    }

    /** A model of this size with RMSNorm and plain attention. */
    public TransformerConfig config(ModelEdition edition, int contextLength) {
        return new TransformerConfig(
                edition, VOCAB_SIZE, contextLength, dModel, numLayers, numHeads, dFf, "rmsnorm", "plain");
    }

    /**
     * Reads a size's name.
     *
     * @throws IllegalArgumentException if there is no such size; the message lists those there are
     */
    public static ModelSize parse(String label) {
        for (ModelSize size : values()) {
            if (size.label.equals(label)) {
                return size;
            }
        }
        String known = Arrays.stream(values()).map(ModelSize::label).collect(Collectors.joining(", "));
        throw new IllegalArgumentException("size '" + label + "' is unknown; known: " + known);
    }

    @Override
    public String toString() {
        return label;
    }
}
