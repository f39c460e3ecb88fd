package cs336.torch;

import org.bytedeco.pytorch.AutoGradMode;

/** A scope in which this thread's operations record no autograd graph: {@code torch.no_grad()}. */
public final class NoGrad implements AutoCloseable {
    static {
        Torch.load();
    }

    private final AutoGradMode guard;

    private NoGrad() {
        // Kept out of memory scopes: the destructor restores the mode, so it must run in close() and not before.
        guard = MemoryScope.keep(new AutoGradMode(false));
    }

    /** Opens a scope, which must be closed on the same thread. */
    public static NoGrad open() {
        return new NoGrad();
    }

    @Override
    public void close() {
        guard.close();
    }
}
