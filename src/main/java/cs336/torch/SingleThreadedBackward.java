package cs336.torch;

import org.bytedeco.pytorch.AutogradState;

/**
 * A scope in which PyTorch's engine runs this thread's backward passes on this thread:
 * {@code torch.autograd.set_multithreading_enabled(False)}. Otherwise each GPU has an engine thread, and the two thread
 * switches take 20 to 50 µs, as long as the rest of the host work for a small graph.
 */
final class SingleThreadedBackward implements AutoCloseable {
    private final boolean wasMultithreaded = setMultithreading(false);

    private SingleThreadedBackward() {}

    /** Opens a scope, which must be closed on the same thread. */
    static SingleThreadedBackward open() {
        return new SingleThreadedBackward();
    }

    @Override
    public void close() {
        setMultithreading(wasMultithreaded);
    }

    /** Enables or disables engine threads and returns the previous setting. */
    private static boolean setMultithreading(boolean enabled) {
        AutogradState state = AutogradState.get_tls_state(); // owned by the thread
        boolean before = state.get_multithreading_enabled();
        state.set_multithreading_enabled(enabled);
        return before;
    }
}
