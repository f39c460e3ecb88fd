package cs336.profile.memory;

/**
 * The kind of data in a block of memory. Parameters, gradients and optimizer state are identified by their addresses,
 * which the recorded program {@linkplain MemoryProfile#mark marks}. All other blocks are classified by their lifetime
 * relative to the phases, which are the outermost ranges such as {@code forward}.
 */
public enum MemoryCategory {
    /** Parameters of the model (marked). */
    PARAMETERS("parameters"),
    /** State of the optimizer, for AdamW its moments (marked). */
    OPTIMIZER_STATE("optimizer state"),
    /** Gradients of the parameters (marked). */
    GRADIENTS("gradients"),
    /**
     * Tensors that the forward pass saves for the backward pass: allocated in one phase and freed in a later phase or
     * between two. They include autocast's casts of the parameters, which the autograd graph keeps.
     */
    ACTIVATIONS("activations"),
    /**
     * Intermediate results and gradients of activations: allocated and freed in the same phase. Also blocks that were
     * allocated in a phase and never freed, such as the workspaces of cuBLAS or a mask that a module caches.
     */
    WORKSPACE("workspace"),
    /** Everything else: allocated outside all phases, such as the batch, or before the recording. */
    OTHER("other");

    private final String label;

    MemoryCategory(String label) {
        this.label = label;
    }

    /** Returns the name in metrics and CSV columns, without spaces, as in {@code optimizer-state}. */
    public String column() {
        return label.replace(' ', '-');
    }

    @Override
    public String toString() {
        return label;
    }
}
