package cs336.torch;

import org.bytedeco.pytorch.BoolOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/**
 * A backward pass with all its options: {@code Backward.of(loss).retainGraph().run()}, or, for gradients as values,
 * {@code Backward.of(y).with(dy).gradients(x, weight)}.
 *
 * <p>{@code loss.backward()} does the same as {@code Backward.of(loss).run()} but for exceptions: what the backward
 * pass of a {@link AutogradFunction} throws arrives from here as it was thrown, and from there as a
 * {@code RuntimeException} with its text.
 *
 * <p>All of it runs on the calling thread, on the streams of the forward pass; {@code loss.backward()} has a thread for
 * each card, which is slower for small graphs and issues work to several cards at once.
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

    /** The backward pass from these tensors. */
    public static Backward of(Tensor... outputs) {
        if (outputs.length == 0) {
            throw new IllegalArgumentException("outputs must be one tensor or more");
        }
        for (int i = 0; i < outputs.length; i++) {
            if (!outputs[i].requires_grad()) {
                throw new IllegalArgumentException("output " + i + " has no graph: nothing that it was computed from"
                        + " requires a gradient, or gradients were off");
            }
        }
        return new Backward(outputs);
    }

    /**
     * Starts from these gradients, one for each output and of its shape. Without them each output must be a scalar, and
     * starts from 1.
     */
    public Backward with(Tensor... gradients) {
        if (gradients.length != outputs.length) {
            throw new IllegalArgumentException(
                    "gradients must be " + outputs.length + ", one for each output, not " + gradients.length);
        }
        gradOutputs = gradients;
        return this;
    }

    /** Keeps what the graph saved, so that there can be another backward pass through it. */
    public Backward retainGraph() {
        retainGraph = true;
        return this;
    }

    /**
     * Records a graph of the backward pass, so that gradients can be differentiated again; keeps the first graph too.
     */
    public Backward createGraph() {
        createGraph = true;
        return this;
    }

    /** Adds the gradients for all leaves of the graph to their {@code grad()}. */
    public void run() {
        try (var scope = MemoryScope.open();
                var thread = SingleThreadedBackward.only()) {
            torch.backward(new TensorVector(outputs), startingFrom(), retain(), createGraph, NONE);
        } catch (RuntimeException e) {
            throw origin(e);
        }
    }

    /**
     * The gradients for these tensors; no {@code grad()} changes.
     *
     * @return one for each input, of its shape, in the caller's memory scope; null where no output depends on the input
     */
    public Tensor[] gradients(Tensor... inputs) {
        try (var scope = MemoryScope.open();
                var thread = SingleThreadedBackward.only()) {
            boolean allowUnused = true;
            TensorVector found = torch.grad(
                    new TensorVector(outputs),
                    new TensorVector(inputs),
                    startingFrom(),
                    retain(),
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

    private TensorVector startingFrom() {
        return gradOutputs.length == 0 ? NONE : new TensorVector(gradOutputs);
    }

    private BoolOptional retain() {
        return retainGraph || createGraph ? YES : NO;
    }

    /** The exception of a function's backward pass as it was thrown, with the place of this call noted in it. */
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
