package cs336.torch;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.Tensor;

/** One application of a {@link AutogradFunction} in PyTorch's graph. */
final class FunctionNode implements DifferentiableGraph.BackwardPass {
    private final AutogradFunction function;
    private final AutogradFunction.Context ctx;
    /** The shapes that gradients must have; null for inputs without one. */
    private final long[][] gradShapes;
    /** Where each tensor that the function saved is among those that the graph saved. */
    private final int[] places;
    /** Which of them are neither inputs nor outputs. */
    private final boolean[] intermediate;

    private FunctionNode(
            AutogradFunction function,
            AutogradFunction.Context ctx,
            long[][] gradShapes,
            int[] places,
            boolean[] intermediate) {
        this.function = function;
        this.ctx = ctx;
        this.gradShapes = gradShapes;
        this.places = places;
        this.intermediate = intermediate;
    }

    /** Puts an application into the graph and returns its outputs as the graph knows them. */
    static Tensor[] record(AutogradFunction function, AutogradFunction.Context ctx, Tensor[] inputs, Tensor[] outputs) {
        long[][] gradShapes = new long[inputs.length][];
        for (int i = 0; i < inputs.length; i++) {
            gradShapes[i] = ctx.needsInputGrad(i) ? Tensors.shape(inputs[i]) : null;
        }
        // The graph saves outputs apart, with their history, so that what backward makes of them can be differentiated.
        Tensor[] saved = ctx.saved();
        List<Tensor> savedTensors = new ArrayList<>(saved.length);
        List<Integer> savedOutputs = new ArrayList<>();
        int[] places = new int[saved.length];
        boolean[] intermediate = new boolean[saved.length];
        for (int i = 0; i < saved.length; i++) {
            boolean isInput = indexOf(saved[i], inputs) >= 0;
            int output = isInput ? -1 : indexOf(saved[i], outputs);
            intermediate[i] = !isInput && output < 0;
            if (output < 0) {
                places[i] = savedTensors.size();
                savedTensors.add(saved[i]);
            } else {
                places[i] = ~savedOutputs.size(); // behind all others, however many these will be
                savedOutputs.add(output);
            }
        }
        for (int i = 0; i < places.length; i++) {
            places[i] = places[i] < 0 ? savedTensors.size() + ~places[i] : places[i];
        }
        FunctionNode node = new FunctionNode(function, ctx.forBackward(), gradShapes, places, intermediate);
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
        boolean recording = GradMode.is_enabled();
        boolean once = recording && ctx.isOnceDifferentiable();
        Tensor[] saved = new Tensor[places.length];
        for (int i = 0; i < saved.length; i++) {
            saved[i] = savedByGraph[places[i]];
            if (recording && !once && intermediate[i] && isDifferentiable(saved[i]) && !saved[i].requires_grad()) {
                saved[i] = UnknownDerivative.of(saved[i], gradOutputs, intermediateHasNoDerivative(i));
            }
        }
        Tensor[] gradInputs;
        try (var mode = PlainMode.recording(recording && !once)) {
            gradInputs = function.backward(ctx.forBackward(saved), gradOutputs);
        }
        requireOneForEachInput(gradInputs);
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
        return "gradient of a gradient of " + function.name() + ": its saved tensor " + i
                + " is neither an input nor an"
                + " output, so how it depends on the inputs is not known. Let backward compute it from saved inputs, or"
                + " forward return it as an output too.";
    }

    private String onceDifferentiable() {
        return "gradient of a gradient of " + function.name() + ": it says that it is differentiable only once";
    }

    private void requireOneForEachInput(Tensor[] gradInputs) {
        int inputs = gradShapes.length;
        if (gradInputs == null || gradInputs.length != inputs) {
            throw new IllegalStateException("backward of " + function.name() + " must return " + inputs
                    + " gradients, one for each input, or null for none; it returned "
                    + (gradInputs == null ? "null" : gradInputs.length));
        }
    }

    private void requireFits(int i, Tensor gradInput) {
        if (gradInput.isNull() || !gradInput.defined()) {
            throw new IllegalStateException("gradient " + i + " that backward of " + function.name() + " returned is "
                    + (gradInput.isNull() ? "closed" : "undefined") + "; null says that there is none");
        }
        long[] shape = Tensors.shape(gradInput);
        if (!Arrays.equals(shape, gradShapes[i])) {
            throw new IllegalStateException("gradient " + i + " that backward of " + function.name()
                    + " returned has shape " + Arrays.toString(shape) + "; input " + i + " has "
                    + Arrays.toString(gradShapes[i]));
        }
    }
}
