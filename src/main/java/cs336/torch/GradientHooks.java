package cs336.torch;

import java.util.ArrayList;
import java.util.List;
import java.util.function.IntConsumer;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorBase;
import org.bytedeco.pytorch.VoidTensorHook;

/**
 * Tells, while a backward pass runs, which parameters have their gradients: PyTorch's
 * {@code register_post_accumulate_grad_hook}, which the presets lack.
 *
 * <pre>{@code
 * try (var hooks = GradientHooks.of(parameters, i -> System.out.println(i + " is ready"))) {
 *     loss.backward();
 *     hooks.flush();
 * }
 * }</pre>
 *
 * <p>The hooks that there are run just before a gradient is added to {@code grad()}. The engine adds the gradients for
 * the leaves of one device one after the other, so when one is about to be added the one before it has been: each hook
 * reports its predecessor, and {@link #flush} the last one. On CUDA "has been" means queued, on the stream that is
 * current in the listener.
 *
 * <p>A parameter is reported once for each backward pass that reaches it, however often the graph uses it. The listener
 * runs on the thread of the engine; what it throws ends the backward pass and arrives at its caller.
 */
public final class GradientHooks implements AutoCloseable {
    private static final int NONE = -1;

    private final List<Tensor> parameters = new ArrayList<>();
    private final List<Hook> hooks = new ArrayList<>(); // native code has weak references only
    private final List<Integer> numbers = new ArrayList<>();
    private final IntConsumer listener;
    private int arriving = NONE;

    private GradientHooks(IntConsumer listener) {
        this.listener = listener;
    }

    /**
     * Listens to these parameters.
     *
     * @param parameters leaves that require gradients, all on one device, each once
     * @param listener takes a parameter's place in the list when its gradient is final for this backward pass
     * @throws IllegalArgumentException if one is no leaf that requires a gradient
     */
    public static GradientHooks of(List<Tensor> parameters, IntConsumer listener) {
        for (int i = 0; i < parameters.size(); i++) {
            Tensor parameter = parameters.get(i);
            if (!parameter.requires_grad() || !parameter.is_leaf()) {
                throw new IllegalArgumentException("parameter " + i + " must be a leaf that requires a gradient");
            }
        }
        var all = new GradientHooks(listener);
        for (int i = 0; i < parameters.size(); i++) {
            Hook hook = MemoryScope.keep(all.new Hook(i));
            Tensor parameter = MemoryScope.keep(new Tensor(parameters.get(i)));
            all.hooks.add(hook);
            all.parameters.add(parameter);
            all.numbers.add(parameter.register_hook(hook));
        }
        return all;
    }

    /** Reports the last parameter of a backward pass; call it when that has returned. */
    public void flush() {
        if (arriving != NONE) {
            int ready = arriving;
            arriving = NONE;
            listener.accept(ready);
        }
    }

    /** Stops listening. The parameters stay. */
    @Override
    public void close() {
        for (int i = 0; i < hooks.size(); i++) {
            parameters.get(i).remove_hook(numbers.get(i));
            parameters.get(i).close();
            hooks.get(i).close();
        }
        hooks.clear();
        parameters.clear();
        numbers.clear();
    }

    private final class Hook extends VoidTensorHook {
        private final int parameter;

        Hook(int parameter) {
            this.parameter = parameter;
        }

        @Override
        public void call(TensorBase gradient) {
            gradient.close(); // a second reference, because of which autograd would copy the gradient instead of taking
            // it
            try {
                flush();
                arriving = parameter;
            } catch (Throwable thrown) {
                throw NativeCrossing.leave(thrown);
            }
        }
    }
}
