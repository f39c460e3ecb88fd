package cs336.torch;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;

/**
 * Holds the gradients of a function against central differences, in fp64: (f(x + h) − f(x − h)) / 2h with an error of
 * h². What PyTorch calls {@code gradcheck} and {@code gradgradcheck}.
 *
 * <p>Each output y is weighted by fixed random numbers u, and the derivatives of Σ u y with respect to every element of
 * every fp64 input are compared: of each output alone (the others then give null to the backward pass of a
 * {@link AutogradFunction}) and of all together. It takes two evaluations an element: give it small inputs, and away
 * from points where the function has a kink. The error of an element is |backward − difference| / max(1, |difference|).
 */
public final class GradCheck {
    /** The largest error that passes: differences of smooth functions of moderate size are some 1e-9 off. */
    public static final double TOLERANCE = 1e-6;

    /** The cube root of the precision of fp64 balances the errors of truncation and of rounding. */
    private static final double STEP = Math.cbrt(Math.ulp(1.0));

    private static final ScalarType FLOAT64 = DType.FLOAT64.scalarType();

    static {
        Torch.load();
    }

    private GradCheck() {}

    /** What is checked: {@code new WeightedSum()::apply}, or any other differentiable function of tensors. */
    @FunctionalInterface
    public interface Differentiable {
        /** One output or more from the inputs; the same ones each time it is asked. */
        Tensor[] apply(Tensor... inputs);
    }

    /** Checks a function; see {@link #check(Differentiable, Tensor...)}. */
    public static double check(AutogradFunction function, Tensor... inputs) {
        return check(function::apply, inputs);
    }

    /**
     * Checks first derivatives at this point.
     *
     * @param inputs those of type fp64 are varied, and not changed; integers and booleans are handed on
     * @return the largest error
     * @throws AssertionError if it is above {@link #TOLERANCE}; the message names output, input and element
     * @throws IllegalArgumentException if no input is fp64, or an input or output is of a narrower floating type
     */
    public static double check(Differentiable function, Tensor... inputs) {
        requireFloat64Input(inputs);
        try (var scope = MemoryScope.open()) {
            Tensor[] leaves = leaves(inputs);
            Tensor[] outputs = function.apply(leaves);
            Tensor[] weights = weightsFor(outputs);
            int[] weighted = IntStream.range(0, outputs.length)
                    .filter(j -> weights[j] != null)
                    .toArray();
            double[][][] differences = new double[inputs.length][][];
            for (int i = 0; i < inputs.length; i++) {
                if (varies(inputs[i])) {
                    differences[i] = differences(function, leaves, i, weights);
                }
            }
            double worst = 0;
            for (int j : weighted) {
                worst = Math.max(worst, worstError(new int[] {j}, leaves, outputs, weights, differences));
            }
            return Math.max(worst, worstError(weighted, leaves, outputs, weights, differences));
        }
    }

    /** Checks second derivatives of a function; see {@link #checkDouble(Differentiable, Tensor...)}. */
    public static double checkDouble(AutogradFunction function, Tensor... inputs) {
        return checkDouble(function::apply, inputs);
    }

    /**
     * Checks the derivatives of the first derivatives, with respect to the inputs and to the gradients the backward
     * pass starts from.
     *
     * @return the largest error
     * @throws AssertionError if it is above {@link #TOLERANCE}. Inputs are numbered from 0; behind them come the
     *     gradients for the outputs. Output i is the gradient for the i-th fp64 input.
     * @throws IllegalArgumentException as from {@link #check(Differentiable, Tensor...)}
     */
    public static double checkDouble(Differentiable function, Tensor... inputs) {
        requireFloat64Input(inputs);
        try (var scope = MemoryScope.open()) {
            List<Tensor> point = new ArrayList<>(List.of(inputs));
            for (Tensor weight : weightsFor(function.apply(leaves(inputs)))) {
                if (weight != null) {
                    point.add(weight);
                }
            }
            Differentiable derivative = arguments -> derivative(function, inputs.length, arguments);
            return check(derivative, point.toArray(new Tensor[0]));
        }
    }

    /** The gradients for the first {@code count} arguments, starting from the other arguments. */
    private static Tensor[] derivative(Differentiable function, int count, Tensor[] arguments) {
        Tensor[] inputs = Arrays.copyOf(arguments, count);
        List<Tensor> varied = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            if (varies(inputs[i])) {
                inputs[i] = inputs[i].requires_grad()
                        ? inputs[i]
                        : inputs[i].detach().set_requires_grad(true);
                varied.add(inputs[i]);
            }
        }
        List<Tensor> outputs = new ArrayList<>();
        List<Tensor> weights = new ArrayList<>();
        int next = count;
        for (Tensor output : function.apply(inputs)) {
            if (output.is_floating_point()) {
                Tensor weight = arguments[next++];
                if (output.requires_grad()) {
                    outputs.add(output);
                    weights.add(weight);
                }
            }
        }
        Tensor[] gradients = new Tensor[varied.size()];
        if (!outputs.isEmpty()) {
            gradients = Backward.of(outputs.toArray(new Tensor[0]))
                    .with(weights.toArray(new Tensor[0]))
                    .createGraph()
                    .gradients(varied.toArray(new Tensor[0]));
        }
        for (int i = 0; i < gradients.length; i++) {
            gradients[i] = gradients[i] == null ? torch.zeros_like(varied.get(i)) : gradients[i];
        }
        return gradients;
    }

    /** Compares the derivatives of the weighted sum of these outputs. */
    private static double worstError(
            int[] which, Tensor[] leaves, Tensor[] outputs, Tensor[] weights, double[][][] differences) {
        try (var scope = MemoryScope.open()) {
            int[] inGraph =
                    Arrays.stream(which).filter(j -> outputs[j].requires_grad()).toArray();
            int[] varied = IntStream.range(0, leaves.length)
                    .filter(i -> varies(leaves[i]))
                    .toArray();
            Tensor[] gradients = new Tensor[varied.length];
            if (inGraph.length > 0) {
                gradients = Backward.of(pick(outputs, inGraph))
                        .with(pick(weights, inGraph))
                        .retainGraph()
                        .gradients(pick(leaves, varied));
            }
            double worst = 0;
            for (int k = 0; k < varied.length; k++) {
                int i = varied[k];
                int elements = (int) leaves[i].numel();
                double[] gradient = gradients[k] == null ? new double[elements] : Tensors.toDoubles(gradients[k]);
                for (int e = 0; e < elements; e++) {
                    double difference = 0;
                    for (int j : which) {
                        difference += differences[i][e][j];
                    }
                    double error = Math.abs(gradient[e] - difference) / Math.max(1, Math.abs(difference));
                    if (!(error <= TOLERANCE)) { // NaN too
                        String found = gradients[k] == null ? "no gradient" : Double.toString(gradient[e]);
                        throw new AssertionError("derivative of " + names(which) + " with respect to input " + i
                                + " at "
                                + Arrays.toString(index(e, Tensors.shape(leaves[i]))) + ": backward gives " + found
                                + ", differences give " + difference + " (error " + error + ", allowed " + TOLERANCE
                                + ")");
                    }
                    worst = Math.max(worst, error);
                }
            }
            return worst;
        }
    }

    /** For each element of an input the central difference of each output's weighted sum. */
    private static double[][] differences(Differentiable function, Tensor[] leaves, int input, Tensor[] weights) {
        double[] values = Tensors.toDoubles(leaves[input]);
        double[][] differences = new double[values.length][];
        for (int e = 0; e < values.length; e++) {
            double value = values[e];
            double step = STEP * Math.max(1, Math.abs(value));
            double above = value + step;
            double below = value - step;
            try (var scope = MemoryScope.open()) {
                values[e] = above;
                Tensor[] outputsAbove = at(function, leaves, input, values);
                values[e] = below;
                Tensor[] outputsBelow = at(function, leaves, input, values);
                values[e] = value;
                differences[e] = new double[weights.length];
                for (int j = 0; j < weights.length; j++) {
                    if (weights[j] != null) {
                        Tensor change = outputsAbove[j].detach().sub(outputsBelow[j].detach());
                        differences[e][j] = change.mul(weights[j]).sum().item_double() / (above - below);
                    }
                }
            }
        }
        return differences;
    }

    private static Tensor[] at(Differentiable function, Tensor[] leaves, int input, double[] values) {
        Tensor[] inputs = new Tensor[leaves.length];
        for (int i = 0; i < inputs.length; i++) {
            inputs[i] = leaves[i].detach();
        }
        inputs[input] = Tensors.of(values, Tensors.shape(leaves[input])).to(leaves[input].device(), FLOAT64);
        return function.apply(inputs);
    }

    private static Tensor[] leaves(Tensor[] inputs) {
        Tensor[] leaves = new Tensor[inputs.length];
        for (int i = 0; i < inputs.length; i++) {
            leaves[i] = inputs[i].detach().clone().set_requires_grad(varies(inputs[i]));
        }
        return leaves;
    }

    /** Numbers of either sign and of size ½ to 1, the same at each call; null for outputs without derivatives. */
    private static Tensor[] weightsFor(Tensor[] outputs) {
        SplittableRandom random = new SplittableRandom(1);
        Tensor[] weights = new Tensor[outputs.length];
        for (int j = 0; j < outputs.length; j++) {
            if (outputs[j].is_floating_point()) {
                requireFloat64("output", j, outputs[j]);
                double[] values = new double[(int) outputs[j].numel()];
                Arrays.setAll(values, e -> (random.nextBoolean() ? 1 : -1) * (0.5 + random.nextDouble() / 2));
                weights[j] = Tensors.of(values, Tensors.shape(outputs[j])).to(outputs[j].device(), FLOAT64);
            }
        }
        return weights;
    }

    private static boolean varies(Tensor input) {
        return input.is_floating_point();
    }

    private static void requireFloat64Input(Tensor[] inputs) {
        for (int i = 0; i < inputs.length; i++) {
            if (inputs[i].is_floating_point()) {
                requireFloat64("input", i, inputs[i]);
            }
        }
        if (Arrays.stream(inputs).noneMatch(GradCheck::varies)) {
            throw new IllegalArgumentException("inputs must have one of fp64 at least, to be differentiated for");
        }
    }

    private static void requireFloat64(String what, int number, Tensor tensor) {
        if (DType.of(tensor) != DType.FLOAT64) {
            throw new IllegalArgumentException(
                    what + " " + number + " is " + DType.of(tensor) + "; differences say something in fp64 only");
        }
    }

    private static Tensor[] pick(Tensor[] tensors, int[] which) {
        return Arrays.stream(which).mapToObj(j -> tensors[j]).toArray(Tensor[]::new);
    }

    private static String names(int[] outputs) {
        return outputs.length == 1
                ? "output " + outputs[0]
                : "the sum of outputs "
                        + Arrays.stream(outputs).mapToObj(Integer::toString).collect(Collectors.joining(", "));
    }

    private static long[] index(long element, long[] shape) {
        long[] index = new long[shape.length];
        for (int d = shape.length - 1; d >= 0; d--) {
            index[d] = element % shape[d];
            element /= shape[d];
        }
        return index;
    }
}
