package cs336.basics;

import cs336.checkpointing.CheckpointPolicy;
import java.util.Arrays;
import java.util.stream.Collectors;

/**
 * The five model sizes of the course, each with width, feed-forward width, number of layers and number of heads. The
 * 2025 model has three feed-forward matrices (SwiGLU), so {@link #B2_7} then has 3.4 billion parameters.
 */
public enum ModelSize {
    SMALL("small", 768, 3072, 12, 12),
    MEDIUM("medium", 1024, 4096, 24, 16),
    LARGE("large", 1280, 5120, 36, 20),
    XL("xl", 1600, 6400, 48, 25),
    B2_7("2.7B", 2560, 10240, 32, 32);

    /** The vocabulary size of every model. */
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

    /** Returns the name in tables and on the command line: {@code small} … {@code 2.7B}. */
    public String label() {
        return label;
    }

    /** Returns the 2025 model with a context of 1,024 tokens, RMSNorm and plain attention. */
    public TransformerConfig config() {
        return config(ModelEdition.SPRING_2025, 1024);
    }

    /** Returns a model of this size with RMSNorm and plain attention. */
    public TransformerConfig config(ModelEdition edition, int contextLength) {
        return new TransformerConfig(
                edition,
                VOCAB_SIZE,
                contextLength,
                dModel,
                numLayers,
                numHeads,
                dFf,
                "rmsnorm",
                "plain",
                Normalization.EPS,
                TransformerConfig.ROPE_THETA,
                Fuser.NONE,
                CheckpointPolicy.everything());
    }

    /**
     * Returns the size of this name.
     *
     * @throws IllegalArgumentException if there is none; the message lists the known names
     */
    public static ModelSize parse(String label) {
        for (ModelSize size : values()) {
            if (size.label.equals(label)) {
                return size;
            }
        }
        String known = Arrays.stream(values()).map(ModelSize::label).collect(Collectors.joining(", "));
        throw new IllegalArgumentException("size '" + label + "' is unknown; known: " + known
                + ". --d-model, --d-ff, --layers, --heads and --vocab set other sizes");
    }

    @Override
    public String toString() {
        return label;
    }
}
