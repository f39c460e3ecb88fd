package cs336.torch;

import org.bytedeco.pytorch.AutoGradMode;

/** While open, operations of this thread record no graph, so nothing is kept for a backward pass. */
public final class NoGrad implements AutoCloseable {
    static {
        Torch.load();
    }

    private final AutoGradMode guard;

    private NoGrad() {
        // In no memory scope: the mode must come back when this closes, not when a scope does.
        guard = MemoryScope.keep(new AutoGradMode(false));
    }

    /** Opens a scope; close it on the same thread. */
    public static NoGrad open() {
        return new NoGrad();
    }

    @Override
    public void close() {
        guard.close();
    }
}
