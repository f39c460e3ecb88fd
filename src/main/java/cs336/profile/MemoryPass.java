package cs336.profile;

import cs336.bench.Argument;
import java.util.List;

/** What is run while memory is recorded. */
public enum MemoryPass {
    /** Logits alone, and nothing kept for a backward pass, as in inference. */
    FORWARD("forward", 1),
    /** Logits and loss with the graph that a backward pass would need; it is dropped unused. */
    FORWARD_GRAPH("forward-graph", 1),
    /** Logits, loss, gradients. */
    FORWARD_BACKWARD("forward-backward", 2),
    /** A whole training step: forward, backward, AdamW's update. */
    STEP("step", 4);

    private final String label;
    private final int copies;

    MemoryPass(String label, int copies) {
        this.label = label;
        this.copies = copies;
    }

    /** How many numbers are kept for each parameter, as {@link cs336.bench.Pass#copiesOfParameters} counts them. */
    public int copiesOfParameters() {
        return copies;
    }

    /**
     * Reads {@code forward}, {@code forward-graph}, {@code forward-backward} or {@code step}.
     *
     * @throws IllegalArgumentException if the text is none of these
     */
    public static MemoryPass parse(String label) {
        return Argument.oneOf("pass", label, List.of(values()));
    }

    @Override
    public String toString() {
        return label;
    }
}
