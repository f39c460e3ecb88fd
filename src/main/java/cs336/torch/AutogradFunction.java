package cs336.torch;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.Tensor;

/**
 * A differentiable function whose gradient is written by hand: PyTorch's {@code torch.autograd.Function}. A subclass
 * gives the forward and the backward pass; {@link #apply} runs the one and puts the other into PyTorch's graph.
 *
 * <p>The weighted sum y[i] = Σ_j w[j] x[i,j], with dx[i,j] = w[j] dy[i] and dw[j] = Σ_i x[i,j] dy[i]:
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
 * <p><b>Arguments that are not tensors</b> go through the constructor; what else forward has to tell backward goes
 * through {@link Context#put}. One instance may be applied any number of times, by several threads at once, and lives
 * as long as a graph needs it: keep no state of a single application in its fields. New instances are cheap.
 *
 * <p><b>Memory.</b> Both passes run in a {@link MemoryScope} of their own: what they make and neither return nor save
 * is freed at once. What is saved lives as long as the graph.
 *
 * <p><b>Gradients of gradients.</b> The forward pass records no graph. The backward pass does if its caller asks for it
 * ({@link Backward#createGraph}): made of differentiable operations on gradients, saved inputs and saved outputs, it
 * can be differentiated again. Where a derivative would go missing, through a saved tensor that is neither input nor
 * output or through a kernel ({@link Context#onceDifferentiable}), asking for it is an error.
 *
 * <p><b>Autocast</b> is off inside both passes: tensors have the types they were given, and nothing is cast unless the
 * function does it. A function that wants narrow inputs gets them from its caller, cast before {@code apply}, where the
 * cast is part of the graph.
 *
 * <p><b>Threads.</b> The backward pass runs with the device and the stream of the forward pass as current ones, on the
 * thread that called {@link Backward}; from {@code loss.backward()}, on CUDA, on a thread of PyTorch's engine.
 */
public abstract class AutogradFunction {
    static {
        Torch.load();
    }

    /**
     * Computes the outputs. Inputs must not be changed in place; nor may, later on, an output that shares memory with
     * one.
     *
     * @param ctx takes what the backward pass will need
     * @param inputs as given to {@link #apply}
     * @return one tensor or more; those of integer or boolean type have no gradient
     */
    protected abstract Tensor[] forward(Context ctx, Tensor... inputs);

    /**
     * Computes the gradients for the inputs from those for the outputs. Neither gradients nor saved tensors may be
     * changed in place.
     *
     * @param ctx what the forward pass saved
     * @param gradOutputs one for each output, of its shape but of any strides, even 0; null for an output that the
     *     result does not depend on, but never all of them
     * @return one for each input, of its shape, or null for none; PyTorch casts it to the input's type
     */
    protected abstract Tensor[] backward(Context ctx, Tensor... gradOutputs);

    /**
     * Applies the function. If gradients are on and an input requires one, the outputs carry a node of PyTorch's graph
     * whose backward pass is {@link #backward}; otherwise nothing is saved.
     *
     * @return the outputs, in the caller's memory scope
     * @throws IllegalArgumentException if an input is null, closed or undefined
     * @throws IllegalStateException if the forward pass returns or saves such a tensor, returns none, or changes an
     *     input in place
     */
    public final Tensor[] apply(Tensor... inputs) {
        boolean recording = GradMode.is_enabled();
        boolean recorded = false;
        boolean[] needsInputGrad = new boolean[inputs.length];
        long[] versions = new long[inputs.length];
        for (int i = 0; i < inputs.length; i++) {
            if (!isUsable(inputs[i])) {
                throw new IllegalArgumentException("input " + i + " of " + name() + " is " + flaw(inputs[i]));
            }
            needsInputGrad[i] = recording && inputs[i].requires_grad();
            recorded |= needsInputGrad[i];
            versions[i] = inputs[i]._version();
        }
        try (var scope = MemoryScope.open()) {
            Context ctx = new Context(this, needsInputGrad);
            Tensor[] outputs;
            try (var mode = PlainMode.recording(false)) {
                outputs = forward(ctx, inputs.clone());
            }
            requireProper(outputs);
            for (int i = 0; i < inputs.length; i++) {
                if (inputs[i]._version() != versions[i]) {
                    throw new IllegalStateException("forward of " + name() + " changed input " + i + " in place");
                }
            }
            if (recorded && ProfilerRange.hasListeners()) {
                nameMaker(inputs[0]);
            }
            Tensor[] results = recorded ? FunctionNode.record(this, ctx, inputs, outputs) : newHandles(outputs);
            for (Tensor result : results) {
                scope.escape(result);
            }
            return results;
        }
    }

    /**
     * Profilers know where a node of the graph was made by the last operator called before with gradients on. There is
     * none here, since forward runs with them off; so, where somebody listens, one is called that does nothing.
     */
    private static void nameMaker(Tensor input) {
        input.detach().close();
    }

    /** Its class, for messages. */
    String name() {
        return getClass().getName();
    }

    private void requireProper(Tensor[] outputs) {
        if (outputs == null || outputs.length == 0) {
            throw new IllegalStateException("forward of " + name() + " must return one output or more");
        }
        for (int i = 0; i < outputs.length; i++) {
            if (!isUsable(outputs[i])) {
                throw new IllegalStateException("output " + i + " of " + name() + " is " + flaw(outputs[i]));
            }
        }
    }

    /** The handles of forward go with its scope, but for those that it did not make. */
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

    /** What the forward pass of one application hands to its backward pass. */
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
         * Saves tensors for the backward pass, behind those saved before. The graph keeps them, and refuses the
         * backward pass if one of them was changed in place since.
         *
         * @throws IllegalArgumentException if one is null, closed or undefined
         * @throws IllegalStateException in a backward pass
         */
        public void save(Tensor... tensors) {
            requireForward("save");
            for (Tensor tensor : tensors) {
                if (!isUsable(tensor)) {
                    throw new IllegalArgumentException(
                            "tensor " + saved.size() + " that " + function.name() + " saves is " + flaw(tensor));
                }
                saved.add(tensor);
            }
        }

        /**
         * A saved tensor, in the backward pass.
         *
         * @param i its number in the order of saving, from 0
         * @throws IndexOutOfBoundsException if there is none of this number
         * @throws IllegalStateException in the forward pass
         */
        public Tensor saved(int i) {
            if (isForward) {
                throw new IllegalStateException("saved(i) is for the backward pass of " + function.name());
            }
            if (i < 0 || i >= saved.size()) {
                throw new IndexOutOfBoundsException(
                        "saved tensor " + i + " asked for; " + function.name() + " saved " + saved.size());
            }
            return saved.get(i);
        }

        /**
         * Whether an input needs a gradient. In the forward pass, if none does, nothing need be saved.
         *
         * @throws IndexOutOfBoundsException if there is no such input
         */
        public boolean needsInputGrad(int i) {
            if (i < 0 || i >= needsInputGrad.length) {
                throw new IndexOutOfBoundsException(
                        "input " + i + " asked for; " + function.name() + " has " + needsInputGrad.length);
            }
            return needsInputGrad[i];
        }

        /**
         * Keeps a value for the backward pass, one of each class: a record of sizes and choices, say. Tensors are
         * saved, not put: the forward pass frees them, in a record too.
         *
         * @throws IllegalArgumentException if the value is null or a native object
         * @throws IllegalStateException in a backward pass
         */
        public void put(Object value) {
            requireForward("put");
            if (value == null || value instanceof Pointer) {
                throw new IllegalArgumentException("value that " + function.name() + " puts is "
                        + (value == null
                                ? "null"
                                : "native (" + value.getClass().getSimpleName() + "); tensors are saved"));
            }
            values.put(value.getClass(), value);
        }

        /**
         * The value of this class that the forward pass has put.
         *
         * @throws IllegalStateException if it has put none
         */
        public <T> T get(Class<T> type) {
            Object value = values.get(type);
            if (value == null) {
                throw new IllegalStateException(function.name() + " has put no " + type.getName());
            }
            return type.cast(value);
        }

        /**
         * Says, in the forward pass, that the backward pass is made of operations that PyTorch cannot differentiate,
         * such as kernels. Asking for gradients of its gradients is then an error; without this they would silently
         * lack a part.
         *
         * @throws IllegalStateException in a backward pass
         */
        public void onceDifferentiable() {
            requireForward("onceDifferentiable");
            onceDifferentiable = true;
        }

        private void requireForward(String method) {
            if (!isForward) {
                throw new IllegalStateException(method + " is for the forward pass of " + function.name());
            }
        }

        boolean isOnceDifferentiable() {
            return onceDifferentiable;
        }

        Tensor[] saved() {
            return saved.toArray(new Tensor[0]);
        }

        /** The same for a backward pass, with these tensors as saved ones. */
        Context forBackward(Tensor... tensors) {
            Context ctx = new Context(function, needsInputGrad, values, List.of(tensors), false);
            ctx.onceDifferentiable = onceDifferentiable;
            return ctx;
        }
    }
}
