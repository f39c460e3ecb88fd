package cs336.distributed.training;

import cs336.torch.MemoryScope;
import cs336.torch.NativeCrossing;
import cs336.torch.Torch;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorBase;
import org.bytedeco.pytorch.VoidTensorHook;
import org.bytedeco.pytorch.global.torch;

/**
 * An action that a backward pass runs when it reaches a tensor: when the gradient of this tensor is complete, and
 * before the function that computed the tensor is differentiated. It is PyTorch's {@code Tensor.register_hook}, but the
 * action does not receive the gradient.
 *
 * <p>The action runs on the engine's thread. Its exceptions end the backward pass and reach the caller.
 */
final class BackwardHook implements AutoCloseable {
    static {
        Torch.load();
    }

    /**
     * Closed hooks, which graphs may still call. A graph has only a native reference, so Java must keep the objects.
     */
    private static final Queue<VoidTensorHook> REGISTERED = new ConcurrentLinkedQueue<>();

    private final Runnable action;
    private final VoidTensorHook hook;
    private volatile boolean closed;

    /** Creates a hook, which may be registered on many tensors. */
    public BackwardHook(Runnable action) {
        this.action = action;
        hook = MemoryScope.keep(new ClosableHook());
    }

    /** Registers the hook on a tensor that requires a gradient; it lives as long as the graph of this tensor. */
    public void register(Tensor tensor) {
        tensor.register_hook(hook);
    }

    /** Returns whether this thread runs a backward pass. */
    public static boolean isInBackwardPass() {
        return torch.get_current_graph_task_id() >= 0;
    }

    /** Closes the hook: a backward pass that still reaches it fails instead of running the action. */
    @Override
    public void close() {
        if (!closed) {
            closed = true;
            REGISTERED.add(hook);
        }
    }

    private final class ClosableHook extends VoidTensorHook {
        @Override
        public void call(TensorBase gradient) {
            gradient.close(); // with a second reference, autograd would copy the gradient instead of moving it
            try {
                if (closed) {
                    throw new IllegalStateException("a backward pass reached a tensor whose hook is closed");
                }
                action.run();
            } catch (Throwable thrown) {
                throw NativeCrossing.wrap(thrown);
            }
        }
    }
}
