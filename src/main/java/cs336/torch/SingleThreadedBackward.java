package cs336.torch;

import org.bytedeco.pytorch.AutogradState;

/**
 * While open, PyTorch's engine runs the backward passes that this thread asks for on this thread:
 * {@code torch.autograd.set_multithreading_enabled(False)}. Otherwise each card has a thread of the engine; to hand it
 * a pass and wait for the end costs two changes of threads, 20 to 50 µs, which is as long as the host takes for a small
 * graph.
 */
final class SingleThreadedBackward implements AutoCloseable {
    private final boolean wasElsewhere = switchEngineThreads(false);

    private SingleThreadedBackward() {}

    /** Opens a scope; close it on the same thread. */
    static SingleThreadedBackward only() {
        return new SingleThreadedBackward();
    }

    @Override
    public void close() {
        switchEngineThreads(wasElsewhere);
    }

    /** Returns what was before. */
    private static boolean switchEngineThreads(boolean on) {
        AutogradState state = AutogradState.get_tls_state(); // belongs to the thread, and is not freed here
        boolean before = state.get_multithreading_enabled();
        state.set_multithreading_enabled(on);
        return before;
    }
}
