package cs336.torch;

import org.bytedeco.pytorch.AutoGradMode;

/** A scope in which this thread's operations record no autograd graph: {@code torch.no_grad()}. */
public final class NoGrad implements AutoCloseable {
    static {
        Torch.load();
    }

    private static final OpenScopes OPEN = new OpenScopes("a NoGrad scope");

    private final AutoGradMode guard;
    private boolean open = true;

    private NoGrad() {
        // Kept out of memory scopes: the destructor restores the mode, so it must run in close() and not before.
        guard = MemoryScope.keep(new AutoGradMode(false));
        OPEN.add(this);
    }

    /** Opens a scope, which must be closed on the same thread. */
    public static NoGrad open() {
        return new NoGrad();
    }

    /**
     * Restores the previous mode.
     *
     * @throws IllegalStateException on another thread, or before a scope inside this one is closed
     */
    @Override
    public void close() {
        if (!open) {
            return;
        }
        OPEN.remove(this);
        open = false;
        guard.close();
    }
}
