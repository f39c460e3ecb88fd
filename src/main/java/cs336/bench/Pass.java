package cs336.bench;

import java.util.List;

/** The part of a training step that is run. */
public enum Pass {
    /** Computes the logits without an autograd graph, as in inference. */
    FORWARD("forward", 1, "forward"),
    /** Computes logits and loss with the autograd graph of a backward pass, then frees the graph. */
    FORWARD_GRAPH("forward-graph", 1, "forward"),
    /** Computes logits and loss, then all gradients. */
    FORWARD_BACKWARD("forward-backward", 2, "forward", "backward"),
    /** Runs the whole step: forward pass, backward pass, AdamW update. */
    STEP("step", 4, "forward", "backward", "optimizer");

    private final String label;
    private final int valuesPerParameter;
    private final List<String> phases;

    Pass(String label, int valuesPerParameter, String... phases) {
        this.label = label;
        this.valuesPerParameter = valuesPerParameter;
        this.phases = List.of(phases);
    }

    /** Returns the phases that are timed separately, in addition to the whole pass. */
    public List<String> phases() {
        return phases;
    }

    /**
     * Returns the number of stored values for each parameter: the parameter itself, its gradient, and AdamW's two
     * moments, as far as the pass needs them. Activations are not counted.
     */
    public int valuesPerParameter() {
        return valuesPerParameter;
    }

    /**
     * Parses {@code forward}, {@code forward-graph}, {@code forward-backward} or {@code step}.
     *
     * @throws IllegalArgumentException if the text is none of these
     */
    public static Pass parse(String label) {
        return ArgumentCheck.oneOf("pass", label, List.of(values()));
    }

    @Override
    public String toString() {
        return label;
    }
}
