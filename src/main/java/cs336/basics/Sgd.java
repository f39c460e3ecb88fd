package cs336.basics;

import cs336.torch.AtenOperator;
import cs336.torch.AtenOperator.TensorList;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.ProfilerRange;
import cs336.torch.ShardedParameters;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Stochastic gradient descent with momentum μ: u ← μ u + g, then θ ← θ − α u, with u initialized to 0. Without
 * momentum, u = g.
 */
public final class Sgd implements Optimizer {
    private static final AtenOperator FOREACH_MUL = AtenOperator.of("aten::_foreach_mul_", "Scalar");
    private static final AtenOperator FOREACH_ADD = AtenOperator.of("aten::_foreach_add_", "List");

    private final Map<String, Tensor> parameters;
    private final Map<String, Tensor> velocities = new LinkedHashMap<>();
    private final double momentum;
    private double learningRate;
    private boolean closed;

    /**
     * Creates an optimizer. It keeps references to the parameters; {@link #close} frees its state, but not the
     * parameters.
     *
     * @param learningRate α, at least 0
     * @param momentum μ, in [0, 1)
     * @throws IllegalArgumentException if a value is out of range, or a parameter is not a contiguous floating-point
     *     leaf or has two names
     */
    public Sgd(Map<String, Tensor> parameters, double learningRate, double momentum) {
        Objects.requireNonNull(parameters, "parameters must not be null");
        if (!(momentum >= 0 && momentum < 1)) {
            throw new IllegalArgumentException("momentum must be at least 0 and below 1, not " + momentum);
        }
        setLearningRate(learningRate);
        this.momentum = momentum;
        this.parameters = TrainedParameters.of(parameters);
    }

    @Override
    public Map<String, Tensor> parameters() {
        TrainedParameters.requireOpen(closed);
        return parameters;
    }

    @Override
    public double learningRate() {
        return learningRate;
    }

    @Override
    public void setLearningRate(double learningRate) {
        this.learningRate = TrainedParameters.requireRate("learningRate", learningRate);
    }

    @Override
    public void step() {
        TrainedParameters.requireOpen(closed);
        ShardedParameters.requireReduced(parameters.values());
        try (var range = ProfilerRange.of("optimizer");
                var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            List<Tensor> updated = new ArrayList<>();
            List<Tensor> gradients = new ArrayList<>();
            List<Tensor> directions = new ArrayList<>();
            parameters.forEach((name, parameter) -> {
                Tensor gradient = TrainedParameters.gradient(parameter);
                if (gradient != null) {
                    updated.add(parameter);
                    gradients.add(gradient);
                    directions.add(momentum == 0 ? gradient : velocity(name));
                }
            });
            if (updated.isEmpty()) {
                return;
            }
            try (var theta = TensorList.of(updated);
                    var g = TensorList.of(gradients);
                    var u = TensorList.of(directions)) {
                if (momentum != 0) {
                    FOREACH_MUL.call(u, momentum);
                    FOREACH_ADD.call(u, g, 1.0);
                }
                FOREACH_ADD.call(theta, u, -learningRate);
            }
        }
    }

    @Override
    public void close() {
        closed = true;
        velocities.values().forEach(Tensor::close);
        velocities.clear();
        parameters.values().forEach(Tensor::close);
    }

    private Tensor velocity(String name) {
        return velocities.computeIfAbsent(name, n -> MemoryScope.keep(torch.zeros_like(parameters.get(n))));
    }

    @Override
    public Map<String, Tensor> state() {
        TrainedParameters.requireOpen(closed);
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        velocities.forEach((name, velocity) -> tensors.put(name + ".velocity", velocity));
        return tensors;
    }

    @Override
    public void requireLoadable(Map<String, Tensor> saved) {
        byParameter(saved);
    }

    private Map<String, Tensor> byParameter(Map<String, Tensor> saved) {
        TrainedParameters.requireOpen(closed);
        Objects.requireNonNull(saved, "state must not be null");
        Map<String, Tensor> found = new LinkedHashMap<>();
        saved.forEach((key, tensor) -> {
            String name = key.endsWith(".velocity") ? key.substring(0, key.length() - ".velocity".length()) : key;
            if (name.equals(key) || !parameters.containsKey(name) || momentum == 0) {
                throw new IllegalArgumentException(
                        "state has " + key + ", which belongs to no parameter of this optimizer");
            }
            TrainedParameters.requireLike(key, tensor, parameters.get(name));
            found.put(name, tensor);
        });
        return found;
    }

    @Override
    public void loadState(Map<String, Tensor> saved) {
        Map<String, Tensor> found = byParameter(saved);
        List<Tensor> replaced = List.copyOf(velocities.values());
        velocities.clear();
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            found.forEach((name, tensor) -> velocity(name).copy_(tensor));
        }
        replaced.forEach(Tensor::close); // after the copy: the state may be this optimizer's own
    }
}
