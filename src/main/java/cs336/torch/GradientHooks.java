package cs336.torch;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.function.IntConsumer;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorBase;
import org.bytedeco.pytorch.VoidTensorHook;

/**
 * Hooks that report during a backward pass when the gradient of a parameter is ready. They replace PyTorch's
 * {@code register_post_accumulate_grad_hook}, for which the presets have no binding.
 *
 * <pre>{@code
 * try (var hooks = GradientHooks.of(parameters, i -> {}, i -> System.out.println(i + " is ready"))) {
 *     loss.backward();
 *     hooks.flush();
 * }
 * }</pre>
 *
 * <p>The tensor hooks of the presets run just before a gradient is accumulated in {@code grad()}. The engine processes
 * the leaves of a device sequentially, so each hook reports the parameter of the hook before it, and {@link #flush}
 * reports the last one. On CUDA, ready means that the accumulation is enqueued on the stream that is current in the
 * listener.
 *
 * <p>A parameter is reported once per backward pass that reaches it, even if the graph uses it several times. It is
 * also reported if the pass returns its gradient instead of accumulating it, as {@link Backward#gradients} does. A pass
 * that a compiler records is not reported: its gradients are not those of a step. The listeners run on the thread of
 * the backward pass, or on that which calls {@link #flush}. Their exceptions end the backward pass and reach the
 * caller.
 */
public final class GradientHooks implements AutoCloseable {
    private static final int NONE = -1;

    private final List<Tensor> parameters = new ArrayList<>();
    private final List<Hook> hooks = new ArrayList<>(); // native code holds weak references only
    private final List<Integer> handles = new ArrayList<>();
    private final IntConsumer before;
    private final IntConsumer ready;
    private final BitSet reached = new BitSet(); // parameters that the current pass has reached
    private int pending = NONE;

    private GradientHooks(IntConsumer before, IntConsumer ready) {
        this.before = before;
        this.ready = ready;
    }

    /**
     * Registers hooks on these parameters.
     *
     * @param parameters distinct leaves that require gradients, all on one device
     * @param before receives the index of a parameter before its gradient is accumulated; if it throws, the gradient is
     *     not accumulated
     * @param ready receives the index of a parameter when its gradient is complete for this backward pass
     * @throws IllegalArgumentException if one is not a leaf that requires a gradient
     */
    public static GradientHooks of(List<Tensor> parameters, IntConsumer before, IntConsumer ready) {
        for (int i = 0; i < parameters.size(); i++) {
            Tensor parameter = parameters.get(i);
            Tensors.requireDefined("parameter " + i, parameter);
            if (!parameter.requires_grad() || !parameter.is_leaf()) {
                throw new IllegalArgumentException("parameter " + i + " must be a leaf that requires a gradient");
            }
        }
        var registered = new GradientHooks(before, ready);
        for (int i = 0; i < parameters.size(); i++) {
            Hook hook = MemoryScope.keep(registered.new Hook(i));
            Tensor parameter = MemoryScope.keep(new Tensor(parameters.get(i)));
            registered.hooks.add(hook);
            registered.parameters.add(parameter);
            registered.handles.add(parameter.register_hook(hook));
        }
        return registered;
    }

    /**
     * Reports the last parameter of a backward pass. Must be called after each pass, also after one that threw an
     * exception: otherwise the next pass reports this parameter when it begins. If the listener then throws an
     * exception, the message says that this call is missing.
     */
    public void flush() {
        reached.clear();
        report();
    }

    private void report() {
        if (pending != NONE) {
            int last = pending;
            pending = NONE;
            ready.accept(last);
        }
    }

    /** Reports the last parameter of a pass at the beginning of the next one. */
    private void reportLate() {
        int last = pending;
        try {
            report();
        } catch (RuntimeException e) {
            throw new IllegalStateException(
                    "the gradient of parameter " + last
                            + " was reported only in the next backward pass, because flush()"
                            + " was not called after its own",
                    e);
        }
    }

    /** Removes the hooks. */
    @Override
    public void close() {
        for (int i = 0; i < hooks.size(); i++) {
            parameters.get(i).remove_hook(handles.get(i));
            parameters.get(i).close();
            hooks.get(i).close();
        }
        hooks.clear();
        parameters.clear();
        handles.clear();
    }

    private final class Hook extends VoidTensorHook {
        private final int parameter;

        Hook(int parameter) {
            this.parameter = parameter;
        }

        @Override
        public void call(TensorBase gradient) {
            gradient.close(); // with a second reference, autograd would copy the gradient instead of moving it
            if (OperatorInterceptor.isActive()) {
                return;
            }
            try {
                if (reached.get(parameter)) {
                    reached.clear();
                    reportLate();
                } else {
                    report();
                }
                reached.set(parameter);
                before.accept(parameter);
                pending = parameter;
            } catch (Throwable thrown) {
                throw NativeCrossing.wrap(thrown);
            }
        }
    }
}
