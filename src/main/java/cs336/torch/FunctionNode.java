package cs336.torch;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.Tensor;

/** The node of one application of an {@link AutogradFunction} in PyTorch's autograd graph. */
final class FunctionNode implements DifferentiableGraph.BackwardPass {
    private final AutogradFunction function;
    private final AutogradFunction.Context ctx;
    /** The shapes of the inputs that require gradients; null for the others. */
    private final long[][] gradShapes;
    /** The index of each tensor saved by the function among the tensors saved by the graph. */
    private final int[] positions;
    /** For each saved tensor, whether it is neither an input nor an output. */
    private final boolean[] intermediate;

    private FunctionNode(
            AutogradFunction function,
            AutogradFunction.Context ctx,
            long[][] gradShapes,
            int[] positions,
            boolean[] intermediate) {
        this.function = function;
        this.ctx = ctx;
        this.gradShapes = gradShapes;
        this.positions = positions;
        this.intermediate = intermediate;
    }

    /** Adds a node to the graph and returns the outputs with their {@code grad_fn}. */
    static Tensor[] record(AutogradFunction function, AutogradFunction.Context ctx, Tensor[] inputs, Tensor[] outputs) {
        long[][] gradShapes = new long[inputs.length][];
        for (int i = 0; i < inputs.length; i++) {
            gradShapes[i] = ctx.needsInputGrad(i) ? Tensors.shape(inputs[i]) : null;
        }
        // The graph saves outputs separately, with their history, so that the backward pass is differentiable in them.
        Tensor[] saved = ctx.saved();
        List<Tensor> savedTensors = new ArrayList<>(saved.length);
        List<Integer> savedOutputs = new ArrayList<>();
        int[] positions = new int[saved.length];
        boolean[] intermediate = new boolean[saved.length];
        for (int i = 0; i < saved.length; i++) {
            boolean isInput = indexOf(saved[i], inputs) >= 0;
            int output = isInput ? -1 : indexOf(saved[i], outputs);
            intermediate[i] = !isInput && output < 0;
            if (output < 0) {
                positions[i] = savedTensors.size();
                savedTensors.add(saved[i]);
            } else {
                positions[i] = ~savedOutputs.size(); // after all other saved tensors, whose number is not known yet
                savedOutputs.add(output);
            }
        }
        for (int i = 0; i < positions.length; i++) {
            positions[i] = positions[i] < 0 ? savedTensors.size() + ~positions[i] : positions[i];
        }
        var node = new FunctionNode(function, ctx.forBackward(), gradShapes, positions, intermediate);
        return new DifferentiableGraph(inputs.length, outputs.length, savedTensors.size(), savedOutputs)
                .record(inputs, outputs, savedTensors, node);
    }

    private static int indexOf(Tensor tensor, Tensor[] tensors) {
        for (int i = 0; i < tensors.length; i++) {
            if (tensors[i] == tensor || tensors[i].is_same(tensor)) {
                return i;
            }
        }
        return -1;
    }

    @Override
    public Tensor[] run(Tensor[] gradOutputs, Tensor[] savedByGraph) {
        if (Arrays.stream(gradOutputs).allMatch(gradient -> gradient == null)) {
            return new Tensor[gradShapes.length];
        }
        boolean createGraph = GradMode.is_enabled();
        boolean once = createGraph && ctx.isOnceDifferentiable();
        Tensor[] saved = new Tensor[positions.length];
        for (int i = 0; i < saved.length; i++) {
            saved[i] = savedByGraph[positions[i]];
            if (createGraph && !once && intermediate[i] && isDifferentiable(saved[i]) && !saved[i].requires_grad()) {
                saved[i] = UnknownDerivative.of(saved[i], gradOutputs, intermediateHasNoDerivative(i));
            }
        }
        Tensor[] gradInputs;
        try (var mode = PlainMode.withGradMode(createGraph && !once)) {
            gradInputs = function.backward(ctx.forBackward(saved), gradOutputs);
        }
        requireOnePerInput(gradInputs);
        Tensor[] results = new Tensor[gradInputs.length];
        for (int i = 0; i < results.length; i++) {
            if (gradInputs[i] != null && gradShapes[i] != null) {
                requireFits(i, gradInputs[i]);
                results[i] =
                        once ? UnknownDerivative.of(gradInputs[i], gradOutputs, onceDifferentiable()) : gradInputs[i];
            }
        }
        return results;
    }

    private static boolean isDifferentiable(Tensor tensor) {
        return tensor.is_floating_point() || tensor.is_complex();
    }

    private String intermediateHasNoDerivative(int i) {
        return "no second derivative of " + function.name() + ": its saved tensor " + i
                + " is neither an input nor an output, so its derivative is unknown. Compute it in backward from saved"
                + " inputs, or return it from forward as an output.";
    }

    private String onceDifferentiable() {
        return "no second derivative of " + function.name() + ": it is declared onceDifferentiable";
    }

    private void requireOnePerInput(Tensor[] gradInputs) {
        int inputs = gradShapes.length;
        if (gradInputs == null || gradInputs.length != inputs) {
            throw new IllegalStateException("backward of " + function.name() + " must return " + inputs
                    + " gradients, one per input (null for none); it returned "
                    + (gradInputs == null ? "null" : gradInputs.length));
        }
    }

    private void requireFits(int i, Tensor gradInput) {
        if (gradInput.isNull() || !gradInput.defined()) {
            throw new IllegalStateException("gradient " + i + " that backward of " + function.name() + " returned is "
                    + (gradInput.isNull() ? "closed" : "undefined") + "; return null for no gradient");
        }
        long[] shape = Tensors.shape(gradInput);
        if (!Arrays.equals(shape, gradShapes[i])) {
            throw new IllegalStateException("gradient " + i + " that backward of " + function.name()
                    + " returned has shape " + Arrays.toString(shape) + "; input " + i + " has "
                    + Arrays.toString(gradShapes[i]));
        }
    }
}
