package cs336.profile;

import java.util.Arrays;
import java.util.stream.Collectors;

/** What is run while memory is recorded. */
public enum MemoryPass {
    /** Logits alone, and nothing kept for a backward pass, as in inference. */
    FORWARD("forward"),
    /** Logits and loss with the graph that a backward pass would need; it is dropped unused. */
    FORWARD_GRAPH("forward-graph"),
    /** Logits, loss, gradients. */
    FORWARD_BACKWARD("forward-backward"),
    /** A whole training step: forward, backward, AdamW's update. */
    STEP("step");

    private final String label;

    MemoryPass(String label) {
        this.label = label;
    }

    /**
     * Reads {@code forward}, {@code forward-graph}, {@code forward-backward} or {@code step}.
     *
     * @throws IllegalArgumentException if the text is none of these
     */
    public static MemoryPass parse(String label) {
        for (MemoryPass pass : values()) {
            if (pass.label.equals(label)) {
                return pass;
            }
        }
        String known = Arrays.stream(values()).map(MemoryPass::toString).collect(Collectors.joining(", "));
        throw new IllegalArgumentException("pass '" + label + "' is unknown; known: " + known);
    }

    @Override
    public String toString() {
        return label;
    }
}
