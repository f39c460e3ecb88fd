package cs336.torch;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.Tensor;

/**
 * A differentiable function with its own backward pass: PyTorch's {@code torch.autograd.Function}. A subclass
 * implements the forward and the backward pass. {@link #apply} runs the forward pass and adds the backward pass to
 * PyTorch's graph.
 *
 * <p>For example, the weighted sum y[i] = Σ_j w[j] x[i,j], with dx[i,j] = w[j] dy[i] and dw[j] = Σ_i x[i,j] dy[i]:
 *
 * <pre>{@code
 * final class WeightedSum extends AutogradFunction {
 *     static Tensor of(Tensor x, Tensor weight) { // [n, d], [d] → [n]
 *         return new WeightedSum().apply(x, weight)[0];
 *     }
 *
 *     @Override
 *     protected Tensor[] forward(Context ctx, Tensor... inputs) {
 *         ctx.save(inputs);
 *         return new Tensor[] {inputs[0].mul(inputs[1]).sum(-1)}; // [n]
 *     }
 *
 *     @Override
 *     protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
 *         Tensor x = ctx.saved(0); // [n, d]
 *         Tensor weight = ctx.saved(1); // [d]
 *         Tensor dy = gradOutputs[0].unsqueeze(-1); // [n, 1]
 *         Tensor dx = ctx.needsInputGrad(0) ? dy.mul(weight) : null; // [n, d]
 *         Tensor dWeight = ctx.needsInputGrad(1) ? dy.mul(x).sum(0) : null; // [d]
 *         return new Tensor[] {dx, dWeight};
 *     }
 * }
 *
 * GradCheck.check(new WeightedSum(), x, weight); // in its test
 * }</pre>
 *
 * <p><b>Arguments that are not tensors</b> are passed to the constructor. Other values that the backward pass needs are
 * passed through {@link Context#put}. An instance can be applied several times and by several threads at once, so its
 * fields must not hold the state of one application. New instances are cheap.
 *
 * <p><b>Memory.</b> Each pass runs in its own {@link MemoryScope}: tensors that it neither returns nor saves are freed
 * when it ends. Saved tensors live as long as the graph.
 *
 * <p><b>Second derivatives.</b> The forward pass records no graph. The backward pass records one with
 * {@link Backward#createGraph}, so it can be differentiated again if it consists of differentiable operations on the
 * output gradients, saved inputs and saved outputs. Second derivatives through a saved intermediate tensor or through a
 * kernel ({@link Context#onceDifferentiable}) throw an exception.
 *
 * <p><b>Autocast</b> is off in both passes: tensors keep their dtypes. A function that needs 16-bit inputs expects its
 * caller to cast them before {@code apply}, where the cast is part of the graph.
 *
 * <p><b>Threads.</b> In the backward pass, the current device and stream are those of the forward pass.
 * {@link Backward} runs it on the calling thread; {@code loss.backward()} on CUDA runs it on a thread of the autograd
 * engine.
 */
public abstract class AutogradFunction {
    static {
        Torch.load();
    }

    /**
     * Computes the outputs. Neither the inputs nor outputs that share memory with them may be changed in place.
     *
     * @param ctx stores the tensors and values for the backward pass
     * @param inputs the inputs of {@link #apply}
     * @return at least one tensor; integer and boolean outputs have no gradient
     */
    protected abstract Tensor[] forward(Context ctx, Tensor... inputs);

    /**
     * Computes the gradients of the inputs. Neither the output gradients nor saved tensors may be changed in place.
     *
     * @param ctx the tensors and values that the forward pass stored
     * @param gradOutputs one gradient per output, of its shape and with any strides, even 0; null for an output that
     *     the result does not depend on, but never all null
     * @return one gradient per input, of its shape, or null for none; PyTorch casts it to the input's dtype
     */
    protected abstract Tensor[] backward(Context ctx, Tensor... gradOutputs);

    /**
     * Applies the function. If grad mode is on and an input requires a gradient, the outputs have a {@code grad_fn}
     * whose backward pass is {@link #backward}. Otherwise nothing is saved.
     *
     * @return the outputs, in the caller's memory scope
     * @throws IllegalArgumentException if an input is null, closed or undefined, or the forward pass saves such a
     *     tensor
     * @throws IllegalStateException if the forward pass returns such a tensor or none, or changes an input in place
     */
    public final Tensor[] apply(Tensor... inputs) {
        boolean gradMode = GradMode.is_enabled();
        boolean requiresGrad = false;
        boolean[] needsInputGrad = new boolean[inputs.length];
        long[] versions = new long[inputs.length];
        for (int i = 0; i < inputs.length; i++) {
            if (!isUsable(inputs[i])) {
                throw new IllegalArgumentException(
                        "input " + i + " of " + name() + " must be a defined tensor, but is " + flaw(inputs[i]));
            }
            needsInputGrad[i] = gradMode && inputs[i].requires_grad();
            requiresGrad |= needsInputGrad[i];
            versions[i] = inputs[i]._version();
        }
        try (var scope = MemoryScope.open()) {
            var ctx = new Context(this, needsInputGrad);
            Tensor[] outputs;
            try (var mode = PlainMode.withGradMode(false)) {
                outputs = forward(ctx, inputs.clone());
            }
            requireUsable(outputs);
            for (int i = 0; i < inputs.length; i++) {
                if (inputs[i]._version() != versions[i]) {
                    throw new IllegalStateException("forward of " + name() + " changed input " + i + " in place");
                }
            }
            if (requiresGrad && ProfilerRange.hasListeners()) {
                markOrigin(inputs[0]);
            }
            Tensor[] results = requiresGrad ? FunctionNode.record(this, ctx, inputs, outputs) : newHandles(outputs);
            return scope.escapeAll(results);
        }
    }

    /**
     * Calls an operator without effect. Profilers link a graph node to the last operator that was called with grad mode
     * on, and the forward pass runs with grad mode off.
     */
    private static void markOrigin(Tensor input) {
        input.detach().close();
    }

    /** Returns the class name, for error messages. */
    String name() {
        return getClass().getName();
    }

    private void requireUsable(Tensor[] outputs) {
        if (outputs == null || outputs.length == 0) {
            throw new IllegalStateException("forward of " + name() + " must return at least one output");
        }
        for (int i = 0; i < outputs.length; i++) {
            if (!isUsable(outputs[i])) {
                throw new IllegalStateException(
                        "output " + i + " of " + name() + " must be a defined tensor, but is " + flaw(outputs[i]));
            }
        }
    }

    /** Returns new tensor objects, because those that forward created are freed with its scope. */
    private static Tensor[] newHandles(Tensor[] tensors) {
        Tensor[] handles = new Tensor[tensors.length];
        for (int i = 0; i < handles.length; i++) {
            handles[i] = new Tensor(tensors[i]);
        }
        return handles;
    }

    private static boolean isUsable(Tensor tensor) {
        return tensor != null && !tensor.isNull() && tensor.defined();
    }

    private static String flaw(Tensor tensor) {
        return tensor == null ? "null" : tensor.isNull() ? "closed" : "undefined";
    }

    /** The tensors and values that the forward pass of one application stores for its backward pass. */
    public static final class Context {
        private final AutogradFunction function;
        private final boolean[] needsInputGrad;
        private final Map<Class<?>, Object> values;
        private final List<Tensor> saved;
        private final boolean isForward;
        private boolean onceDifferentiable;

        private Context(AutogradFunction function, boolean[] needsInputGrad) {
            this(function, needsInputGrad, new HashMap<>(), new ArrayList<>(), true);
        }

        private Context(
                AutogradFunction function,
                boolean[] needsInputGrad,
                Map<Class<?>, Object> values,
                List<Tensor> saved,
                boolean isForward) {
            this.function = function;
            this.needsInputGrad = needsInputGrad;
            this.values = values;
            this.saved = saved;
            this.isForward = isForward;
        }

        /**
         * Appends tensors to those saved for the backward pass. As in PyTorch, the backward pass fails if one of them
         * has been changed in place since.
         *
         * @throws IllegalArgumentException if one is null, closed or undefined
         * @throws IllegalStateException if called in the backward pass
         */
        public void save(Tensor... tensors) {
            requireForward("save");
            for (Tensor tensor : tensors) {
                if (!isUsable(tensor)) {
                    throw new IllegalArgumentException("tensor " + saved.size() + " that " + function.name()
                            + " saves must be a defined tensor, but is " + flaw(tensor));
                }
                saved.add(tensor);
            }
        }

        /**
         * Returns a saved tensor in the backward pass.
         *
         * @param i the index in the order of saving
         * @throws IndexOutOfBoundsException if there is no such tensor
         * @throws IllegalStateException if called in the forward pass
         */
        public Tensor saved(int i) {
            if (isForward) {
                throw new IllegalStateException("saved(i) must be called in the backward pass of " + function.name());
            }
            if (i < 0 || i >= saved.size()) {
                throw new IndexOutOfBoundsException(
                        "there is no saved tensor " + i + "; " + function.name() + " saved " + saved.size());
            }
            return saved.get(i);
        }

        /**
         * Returns whether an input needs a gradient. If none does, the forward pass need not save anything.
         *
         * @throws IndexOutOfBoundsException if there is no such input
         */
        public boolean needsInputGrad(int i) {
            if (i < 0 || i >= needsInputGrad.length) {
                throw new IndexOutOfBoundsException(
                        "there is no input " + i + "; " + function.name() + " has " + needsInputGrad.length);
            }
            return needsInputGrad[i];
        }

        /**
         * Stores a value for the backward pass, such as a record of sizes and options. A later value of the same class
         * replaces it. Pass tensors to {@link #save} instead, even those in a record: tensors that are not saved are
         * freed after the forward pass.
         *
         * @throws IllegalArgumentException if the value is null or a native object
         * @throws IllegalStateException if called in the backward pass
         */
        public void put(Object value) {
            requireForward("put");
            if (value == null || value instanceof Pointer) {
                throw new IllegalArgumentException("value that " + function.name() + " passes to put must not be "
                        + (value == null
                                ? "null"
                                : "a native " + value.getClass().getSimpleName() + "; use save for tensors"));
            }
            values.put(value.getClass(), value);
        }

        /**
         * Returns the stored value whose class is exactly this one. A superclass or interface, such as {@code List},
         * does not find it.
         *
         * @throws IllegalStateException if there is none
         */
        public <T> T get(Class<T> type) {
            Object value = values.get(type);
            if (value == null) {
                throw new IllegalStateException(function.name() + " stored no value of class " + type.getName());
            }
            return type.cast(value);
        }

        /**
         * Declares that the backward pass contains operations that PyTorch cannot differentiate, such as custom
         * kernels: {@code once_differentiable}. Second derivatives then throw an exception; otherwise they would
         * silently be wrong.
         *
         * @throws IllegalStateException if called in the backward pass
         */
        public void onceDifferentiable() {
            requireForward("onceDifferentiable");
            onceDifferentiable = true;
        }

        private void requireForward(String method) {
            if (!isForward) {
                throw new IllegalStateException(method + " must be called in the forward pass of " + function.name());
            }
        }

        boolean isOnceDifferentiable() {
            return onceDifferentiable;
        }

        Tensor[] saved() {
            return saved.toArray(new Tensor[0]);
        }

        /** Returns the context of the backward pass, with these saved tensors. */
        Context forBackward(Tensor... tensors) {
            var ctx = new Context(function, needsInputGrad, values, List.of(tensors), false);
            ctx.onceDifferentiable = onceDifferentiable;
            return ctx;
        }
    }
}
