package cs336.bench;

import java.util.List;

/** How much of a training step is run. */
public enum Pass {
    /** Logits alone, without a graph for a backward pass, as in inference. */
    FORWARD("forward", 1, "forward"),
    /** Logits and loss with the graph that a backward pass would need; it is dropped unused. */
    FORWARD_GRAPH("forward-graph", 1, "forward"),
    /** Logits and loss with their graph, then all gradients. */
    FORWARD_BACKWARD("forward-backward", 2, "forward", "backward"),
    /** The whole step: forward, backward, AdamW's update. */
    STEP("step", 4, "forward", "backward", "optimizer");

    private final String label;
    private final int valuesPerParameter;
    private final List<String> phases;

    Pass(String label, int valuesPerParameter, String... phases) {
        this.label = label;
        this.valuesPerParameter = valuesPerParameter;
        this.phases = List.of(phases);
    }

    /** The phases that are timed one by one, beside the whole. */
    public List<String> phases() {
        return phases;
    }

    /**
     * How many numbers are kept for each parameter: itself; its gradient; AdamW's two moments. Activations come on top.
     */
    public int valuesPerParameter() {
        return valuesPerParameter;
    }

    /**
     * Reads {@code forward}, {@code forward-graph}, {@code forward-backward} or {@code step}.
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
