package cs336.torch;

import java.util.Arrays;
import java.util.Iterator;
import org.bytedeco.pytorch.BoolOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/**
 * A backward pass with its options: {@code Backward.of(loss).retainGraph().run()} for {@code torch.autograd.backward},
 * {@code Backward.of(y).with(dy).gradients(x, weight)} for {@code torch.autograd.grad}.
 *
 * <p>It differs from {@code loss.backward()} in two ways. An exception from an {@link AutogradFunction}'s backward pass
 * reaches the caller unchanged; {@code loss.backward()} throws a {@code RuntimeException} with its message instead. The
 * pass runs on the calling thread, on the streams of the forward pass. {@code loss.backward()} uses one engine thread
 * per GPU instead, which is slower for small graphs but serves several GPUs at the same time.
 */
public final class Backward {
    static {
        Torch.load();
    }

    private static final TensorVector NONE = MemoryScope.keep(new TensorVector());
    private static final BoolOptional YES = MemoryScope.keep(new BoolOptional(true));
    private static final BoolOptional NO = MemoryScope.keep(new BoolOptional(false));

    private final Tensor[] outputs;
    private Tensor[] gradOutputs = {};
    private boolean retainGraph;
    private boolean createGraph;

    private Backward(Tensor[] outputs) {
        this.outputs = outputs;
    }

    /**
     * Creates a backward pass that starts from these tensors.
     *
     * @throws IllegalArgumentException if there is none, or one does not require a gradient
     */
    public static Backward of(Tensor... outputs) {
        if (outputs.length == 0) {
            throw new IllegalArgumentException("outputs must contain at least one tensor");
        }
        for (int i = 0; i < outputs.length; i++) {
            Tensors.requireDefined("output " + i, outputs[i]);
            if (!outputs[i].requires_grad()) {
                throw new IllegalArgumentException("output " + i + " has no graph: no tensor that it was computed"
                        + " from requires a gradient, or grad mode was off");
            }
        }
        return new Backward(outputs);
    }

    /**
     * Sets the gradients of the outputs. By default each output must be a scalar and has the gradient 1.
     *
     * @param gradients one for each output, of its shape
     * @throws IllegalArgumentException if there are more or fewer gradients than outputs, or one has another shape
     */
    public Backward with(Tensor... gradients) {
        if (gradients.length != outputs.length) {
            throw new IllegalArgumentException("gradients must contain one tensor for each of the " + outputs.length
                    + " outputs, not " + gradients.length);
        }
        for (int i = 0; i < gradients.length; i++) {
            Tensors.requireDefined("gradient " + i, gradients[i]);
            if (!Arrays.equals(Tensors.shape(gradients[i]), Tensors.shape(outputs[i]))) {
                throw new IllegalArgumentException("gradient " + i + " must have the shape of its output, "
                        + Arrays.toString(Tensors.shape(outputs[i])) + ", not "
                        + Arrays.toString(Tensors.shape(gradients[i])));
            }
        }
        gradOutputs = gradients;
        return this;
    }

    /** Keeps the saved tensors of the graph, so that it can be used for another backward pass. */
    public Backward retainGraph() {
        retainGraph = true;
        return this;
    }

    /** Records a graph of the backward pass, so that its gradients are differentiable. Implies {@link #retainGraph}. */
    public Backward createGraph() {
        createGraph = true;
        return this;
    }

    /**
     * Runs the pass and accumulates the gradient of each leaf of the graph in its {@code grad()}.
     *
     * @throws IllegalStateException if an output is not a scalar and has no gradient
     */
    public void run() {
        requireGradients();
        try (var scope = MemoryScope.open();
                var singleThreaded = SingleThreadedBackward.open()) {
            torch.backward(new TensorVector(outputs), gradOutputVector(), keepGraph(), createGraph, NONE);
        } catch (RuntimeException e) {
            throw origin(e);
        }
    }

    /**
     * Returns the gradients of these tensors and changes no {@code grad()}.
     *
     * @return one for each input, of its shape, in the caller's memory scope; null if no output depends on the input
     * @throws IllegalArgumentException if there is no input, or one requires no gradient
     * @throws IllegalStateException if an output is not a scalar and has no gradient
     */
    public Tensor[] gradients(Tensor... inputs) {
        if (inputs.length == 0) {
            throw new IllegalArgumentException("inputs must contain at least one tensor");
        }
        for (int i = 0; i < inputs.length; i++) {
            Tensors.requireDefined("input " + i, inputs[i]);
            if (!inputs[i].requires_grad()) {
                throw new IllegalArgumentException("input " + i + " must require a gradient");
            }
        }
        requireGradients();
        try (var scope = MemoryScope.open();
                var singleThreaded = SingleThreadedBackward.open()) {
            boolean allowUnused = true;
            TensorVector found = torch.grad(
                    new TensorVector(outputs),
                    new TensorVector(inputs),
                    gradOutputVector(),
                    keepGraph(),
                    createGraph,
                    allowUnused);
            Tensor[] gradients = new Tensor[inputs.length];
            for (int i = 0; i < inputs.length; i++) {
                Tensor gradient = found.get(i);
                gradients[i] = gradient.defined() ? scope.escape(new Tensor(gradient)) : null;
            }
            return gradients;
        } catch (RuntimeException e) {
            throw origin(e);
        }
    }

    /** Returns {@link #gradients}, with null for a tensor that requires no gradient. */
    public Tensor[] gradientsWhereRequired(Tensor... inputs) {
        Tensor[] required = Arrays.stream(inputs).filter(Tensor::requires_grad).toArray(Tensor[]::new);
        Tensor[] gradients = required.length == 0 ? required : gradients(required);
        Iterator<Tensor> found = Arrays.asList(gradients).iterator();
        return Arrays.stream(inputs)
                .map(input -> input.requires_grad() ? found.next() : null)
                .toArray(Tensor[]::new);
    }

    private void requireGradients() {
        for (int i = 0; i < outputs.length; i++) {
            if (gradOutputs.length == 0 && outputs[i].numel() != 1) {
                throw new IllegalStateException("output " + i + " has the shape "
                        + Arrays.toString(Tensors.shape(outputs[i])) + ", so its gradient must be given by with()");
            }
        }
    }

    private TensorVector gradOutputVector() {
        return gradOutputs.length == 0 ? NONE : new TensorVector(gradOutputs);
    }

    private BoolOptional keepGraph() {
        return retainGraph || createGraph ? YES : NO;
    }

    /**
     * Returns the original exception of a function's backward pass, with the exception that arrived from native code as
     * a suppressed one.
     */
    private static RuntimeException origin(RuntimeException arrived) {
        Throwable origin = NativeCrossing.origin(arrived);
        if (origin != arrived) {
            origin.addSuppressed(arrived);
        }
        if (origin instanceof Error error) {
            throw error;
        }
        return origin instanceof RuntimeException unchecked ? unchecked : new IllegalStateException(origin);
    }
}
