package cs336.torch;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.SplittableRandom;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;

/**
 * A comparison of a function's gradients with central differences in fp64, (f(x + h) − f(x − h)) / 2h, as PyTorch's
 * {@code gradcheck} and {@code gradgradcheck} do.
 *
 * <p>It compares the derivatives of Σ u y with respect to every element of every fp64 input, where u are fixed random
 * weights of the output y. It does so for each output separately (the other gradients passed to an
 * {@link AutogradFunction} are then null) and for all outputs together. It evaluates the function twice per element, so
 * inputs should be small. They must not be near points where the function is not differentiable. The error of an
 * element is |backward − difference| / max(1, |difference|).
 */
public final class GradCheck {
    /**
     * The largest error allowed. For smooth functions of moderate size central differences are accurate to about 1e-9.
     */
    public static final double TOLERANCE = 1e-6;

    /** The relative step h: the cube root of the fp64 epsilon balances truncation error and rounding error. */
    private static final double STEP = Math.cbrt(Math.ulp(1.0));

    private static final ScalarType FLOAT64 = DType.FLOAT64.scalarType();

    static {
        Torch.load();
    }

    private GradCheck() {}

    /** A differentiable function of tensors, such as {@code new WeightedSum()::apply}. */
    @FunctionalInterface
    public interface Differentiable {
        /** Returns one or more outputs; the same inputs must give the same outputs. */
        Tensor[] apply(Tensor... inputs);
    }

    /** Checks first derivatives of a function; see {@link #check(Differentiable, Tensor...)}. */
    public static double check(AutogradFunction function, Tensor... inputs) {
        Objects.requireNonNull(function, "function must not be null");
        return check(function::apply, inputs);
    }

    /**
     * Checks first derivatives.
     *
     * @param inputs the inputs, which are not modified; derivatives are checked with respect to the fp64 inputs
     * @return the largest error
     * @throws AssertionError if it exceeds {@link #TOLERANCE}; the message names output, input and element
     * @throws IllegalArgumentException if no input is fp64, or an input or output has a floating-point type of lower
     *     precision
     */
    public static double check(Differentiable function, Tensor... inputs) {
        requireFloat64Input(inputs);
        try (var scope = MemoryScope.open()) {
            Tensor[] leaves = leaves(inputs);
            Tensor[] outputs = function.apply(leaves);
            Tensor[] weights = weightsOf(outputs);
            int[] weighted = IntStream.range(0, outputs.length)
                    .filter(j -> weights[j] != null)
                    .toArray();
            double[][][] differences = new double[inputs.length][][];
            for (int i = 0; i < inputs.length; i++) {
                if (inputs[i].is_floating_point()) {
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
        Objects.requireNonNull(function, "function must not be null");
        return checkDouble(function::apply, inputs);
    }

    /**
     * Checks second derivatives: the derivatives of the backward pass with respect to the inputs and to the output
     * gradients.
     *
     * @return the largest error
     * @throws AssertionError if it exceeds {@link #TOLERANCE}. In the message, inputs are numbered from 0 and followed
     *     by the output gradients, and output i is the gradient of the i-th fp64 input.
     * @throws IllegalArgumentException as from {@link #check(Differentiable, Tensor...)}
     */
    public static double checkDouble(Differentiable function, Tensor... inputs) {
        requireFloat64Input(inputs);
        try (var scope = MemoryScope.open()) {
            List<Tensor> point = new ArrayList<>(List.of(inputs));
            for (Tensor weight : weightsOf(function.apply(leaves(inputs)))) {
                if (weight != null) {
                    point.add(weight);
                }
            }
            Differentiable derivative = arguments -> derivative(function, inputs.length, arguments);
            return check(derivative, point.toArray(new Tensor[0]));
        }
    }

    /** Returns the gradients of the first {@code count} arguments; the other arguments are the output gradients. */
    private static Tensor[] derivative(Differentiable function, int count, Tensor[] arguments) {
        Tensor[] inputs = Arrays.copyOf(arguments, count);
        List<Tensor> floating = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            if (inputs[i].is_floating_point()) {
                inputs[i] = inputs[i].requires_grad()
                        ? inputs[i]
                        : inputs[i].detach().set_requires_grad(true);
                floating.add(inputs[i]);
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
        Tensor[] gradients = new Tensor[floating.size()];
        if (!outputs.isEmpty()) {
            gradients = Backward.of(outputs.toArray(new Tensor[0]))
                    .with(weights.toArray(new Tensor[0]))
                    .createGraph()
                    .gradients(floating.toArray(new Tensor[0]));
        }
        for (int i = 0; i < gradients.length; i++) {
            gradients[i] = gradients[i] == null ? torch.zeros_like(floating.get(i)) : gradients[i];
        }
        return gradients;
    }

    /** Returns the largest error of the derivatives of these outputs' weighted sum. */
    private static double worstError(
            int[] selected, Tensor[] leaves, Tensor[] outputs, Tensor[] weights, double[][][] differences) {
        try (var scope = MemoryScope.open()) {
            int[] inGraph = Arrays.stream(selected)
                    .filter(j -> outputs[j].requires_grad())
                    .toArray();
            int[] floating = IntStream.range(0, leaves.length)
                    .filter(i -> leaves[i].is_floating_point())
                    .toArray();
            Tensor[] gradients = new Tensor[floating.length];
            if (inGraph.length > 0) {
                gradients = Backward.of(select(outputs, inGraph))
                        .with(select(weights, inGraph))
                        .retainGraph()
                        .gradients(select(leaves, floating));
            }
            double worst = 0;
            for (int k = 0; k < floating.length; k++) {
                int i = floating[k];
                int elements = (int) leaves[i].numel();
                double[] gradient = gradients[k] == null ? new double[elements] : Tensors.toDoubles(gradients[k]);
                for (int e = 0; e < elements; e++) {
                    double difference = 0;
                    for (int j : selected) {
                        difference += differences[i][e][j];
                    }
                    double scale = Math.max(1, Math.abs(difference));
                    double error = Math.abs(gradient[e] - difference) / scale;
                    if (!(error <= TOLERANCE)) { // also true for NaN
                        String found = gradients[k] == null ? "no gradient" : text(gradient[e]);
                        throw new AssertionError("derivative of " + names(selected) + " with respect to input " + i
                                + " at "
                                + Arrays.toString(index(e, Tensors.shape(leaves[i]))) + ": backward gives " + found
                                + ", central differences give " + text(difference)
                                + " (allowed difference: " + text(TOLERANCE * scale) + ")");
                    }
                    worst = Math.max(worst, error);
                }
            }
            return worst;
        }
    }

    private static String text(double value) {
        return String.format(Locale.ROOT, "%.6g", value);
    }

    /** Returns the derivatives of each output's weighted sum by central differences, [element of the input][output]. */
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
                Tensor[] outputsAbove = evaluate(function, leaves, input, values);
                values[e] = below;
                Tensor[] outputsBelow = evaluate(function, leaves, input, values);
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

    private static Tensor[] evaluate(Differentiable function, Tensor[] leaves, int input, double[] values) {
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
            leaves[i] = inputs[i].detach().clone().set_requires_grad(inputs[i].is_floating_point());
        }
        return leaves;
    }

    /**
     * Returns weights of either sign and magnitude ½ to 1, the same at each call; null for outputs without derivatives.
     */
    private static Tensor[] weightsOf(Tensor[] outputs) {
        var random = new SplittableRandom(1);
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

    private static void requireFloat64Input(Tensor[] inputs) {
        for (int i = 0; i < inputs.length; i++) {
            if (inputs[i].is_floating_point()) {
                requireFloat64("input", i, inputs[i]);
            }
        }
        if (Arrays.stream(inputs).noneMatch(Tensor::is_floating_point)) {
            throw new IllegalArgumentException("inputs must contain at least one fp64 tensor");
        }
    }

    private static void requireFloat64(String what, int number, Tensor tensor) {
        if (DType.of(tensor) != DType.FLOAT64) {
            throw new IllegalArgumentException(what + " " + number + " is " + DType.of(tensor) + " and must be fp64");
        }
    }

    private static Tensor[] select(Tensor[] tensors, int[] selected) {
        return Arrays.stream(selected).mapToObj(j -> tensors[j]).toArray(Tensor[]::new);
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
