package cs336.profile.memory;

/**
 * What memory holds. Parameters, gradients and the optimizer's state are known by their addresses, which the program
 * that is recorded {@link MemoryProfile#mark marks}; the rest is told by when it is allocated and freed. A phase is an
 * outermost range, such as {@code forward}.
 */
public enum MemoryCategory {
    /** Marked: what the model learns. */
    PARAMETERS("parameters"),
    /** Marked: the optimizer's moments. */
    OPTIMIZER_STATE("optimizer state"),
    /** Marked: gradients of parameters. */
    GRADIENTS("gradients"),
    /**
     * Allocated in one phase and freed in a later one, or between two: what the forward pass leaves for the backward
     * pass. Casts of parameters by autocast are among it, since the graph keeps them.
     */
    ACTIVATIONS("activations"),
    /**
     * Allocated and freed in the same phase: results on their way to the next operation, and gradients of activations.
     * Also what was allocated in a phase and never freed: workspaces of libraries such as cuBLAS, a mask that a module
     * keeps.
     */
    WORKSPACE("workspace"),
    /** Everything else: allocated outside of any phase, such as the batch, or before the record. */
    OTHER("other");

    private final String label;

    MemoryCategory(String label) {
        this.label = label;
    }

    /** The name in tables and columns, without blanks: {@code optimizer-state}. */
    public String column() {
        return label.replace(' ', '-');
    }

    @Override
    public String toString() {
        return label;
    }
}
