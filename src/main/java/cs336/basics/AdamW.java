package cs336.basics;

import cs336.basics.AdamWKernel.AdamWScalars;
import cs336.basics.AdamWKernel.AdamWTensors;
import cs336.basics.AdamWKernel.AdamWUpdate;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.ProfilerRange;
import cs336.torch.ShardedParameters;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/**
 * AdamW (Loshchilov and Hutter, <a href="https://arxiv.org/abs/1711.05101">arXiv:1711.05101</a>). With gradient g at
 * step t = 1, 2, …, learning rate α and weight decay λ:
 *
 * <pre>
 * m ← β₁ m + (1 − β₁) g
 * v ← β₂ v + (1 − β₂) g²
 * </pre>
 *
 * The {@link Order} then determines how the parameter is updated and decayed towards 0.
 *
 * <p>In each parameter group, {@link #step} calls a fused kernel once for all parameters that share a device, a dtype
 * and a step count.
 */
public final class AdamW implements Optimizer {
    private static final long MOST_STEPS = 1L << 53; // exact in fp64, which the bias correction uses

    /** The order of update and weight decay, and the denominator that ε is added to. */
    public enum Order {
        /**
         * The course in 2024 and 2025: θ ← θ − αₜ m / (√v + ε) with αₜ = α √(1 − β₂ᵗ) / (1 − β₁ᵗ), then θ ← θ − α λ θ.
         * ε is added to √v without bias correction.
         */
        DECAY_AFTER,
        /** The course in 2026: the same two assignments, weight decay first. */
        DECAY_BEFORE,
        /** PyTorch: θ ← θ − α λ θ, then θ ← θ − α m̂ / (√v̂ + ε) with m̂ = m / (1 − β₁ᵗ) and v̂ = v / (1 − β₂ᵗ). */
        TORCH;

        /** Returns the name of this order on the command line, such as {@code decay-after}. */
        @Override
        public String toString() {
            return name().toLowerCase(Locale.ROOT).replace('_', '-');
        }
    }

    /** The optimizer state of one parameter. */
    public static final class State {
        private final Tensor parameter;
        private long step;
        private Tensor m;
        private Tensor v;
        private Tensor copy;
        private long copiedVersion;

        private State(Tensor parameter) {
            this.parameter = parameter;
        }

        /** Returns the number of updates of the parameter. */
        public long step() {
            return step;
        }

        /** Returns the first moment, shaped like the parameter; null before the first step. */
        public Tensor m() {
            return m;
        }

        /** Returns the second moment, shaped like the parameter; null before the first step. */
        public Tensor v() {
            return v;
        }

        private void refreshCopy() {
            if (copy != null && copiedVersion != parameter._version()) {
                copy.copy_(parameter);
                copiedVersion = parameter._version();
            }
        }

        private void reset() {
            if (m != null) {
                m.close();
                v.close();
                m = null;
                v = null;
            }
            step = 0;
        }

        private void allocate() {
            if (m == null) {
                m = MemoryScope.keep(torch.zeros_like(parameter));
                v = MemoryScope.keep(torch.zeros_like(parameter));
            }
        }
    }

    private final Map<String, Tensor> parameters = new LinkedHashMap<>();
    private final Map<String, State> states = new LinkedHashMap<>();
    private final List<AdamWGroup> groups = new ArrayList<>();
    private boolean closed;

    /**
     * Creates an optimizer with one parameter group. It keeps references to the parameters; {@link #close} frees its
     * state, but not the parameters.
     *
     * @throws IllegalArgumentException if a parameter is not a contiguous floating-point leaf or has two names
     */
    public AdamW(Map<String, Tensor> parameters, AdamWSettings settings) {
        add(Objects.requireNonNull(parameters, "parameters must not be null"), settings);
    }

    /**
     * Adds a parameter group with its own settings.
     *
     * @throws IllegalArgumentException if the optimizer has a parameter of that name already, or a parameter is not a
     *     contiguous floating-point leaf or is in this optimizer under another name
     */
    public void add(Map<String, Tensor> more, AdamWSettings settings) {
        Objects.requireNonNull(settings, "settings must not be null");
        TrainedParameters.requireOpen(closed);
        for (String name : more.keySet()) {
            if (parameters.containsKey(name)) {
                throw new IllegalArgumentException("parameter " + name + " is already in this optimizer");
            }
        }
        Map<String, Tensor> all = new LinkedHashMap<>(parameters);
        all.putAll(more);
        TrainedParameters.requireDistinct(all);
        Map<String, Tensor> handles = TrainedParameters.of(more);
        List<State> added = new ArrayList<>();
        handles.forEach((name, parameter) -> {
            var state = new State(parameter);
            states.put(name, state);
            added.add(state);
        });
        parameters.putAll(handles);
        groups.add(new AdamWGroup(added, settings));
    }

    @Override
    public Map<String, Tensor> parameters() {
        TrainedParameters.requireOpen(closed);
        return Collections.unmodifiableMap(parameters);
    }

    /** Returns the state of each parameter by the parameter's name. The optimizer owns the tensors. */
    public Map<String, State> states() {
        return Collections.unmodifiableMap(states);
    }

    /** Returns the learning rate of the first parameter group. */
    @Override
    public double learningRate() {
        return groups.get(0).settings.learningRate();
    }

    /**
     * Sets the learning rate of every parameter group.
     *
     * @throws IllegalArgumentException if it is negative, not finite, or at least 1/λ in a group; then nothing changes
     */
    @Override
    public void setLearningRate(double learningRate) {
        TrainedParameters.requireOpen(closed);
        List<AdamWSettings> changed = groups.stream() // all are valid before one changes
                .map(group -> group.settings.withLearningRate(learningRate))
                .toList();
        for (int i = 0; i < changed.size(); i++) {
            groups.get(i).settings = changed.get(i);
        }
    }

    /**
     * Sets the learning rate of one parameter group.
     *
     * @param index index of the group, from 0, in the order in which they were added
     * @throws IllegalArgumentException if it is negative, not finite, or at least 1/λ
     * @throws IndexOutOfBoundsException if there is no such group
     */
    public void setLearningRate(int index, double learningRate) {
        TrainedParameters.requireOpen(closed);
        AdamWGroup group = groups.get(index);
        group.settings = group.settings.withLearningRate(learningRate);
    }

    @Override
    public void step() {
        step((Tensor) null);
    }

    /**
     * Updates the parameters like {@link #step()}, with every gradient multiplied by a factor. The stored gradients do
     * not change.
     *
     * @param gradientFactor a 0-dimensional fp32 tensor on the device of the parameters, or fp64 if all parameters are
     *     fp64; null for 1. The device is not checked
     * @throws IllegalArgumentException if the factor is closed, has another dtype or is not 0-dimensional
     * @throws IllegalStateException as {@link #step()}
     */
    public void step(Tensor gradientFactor) {
        TrainedParameters.requireOpen(closed);
        ShardedParameters.requireReduced(parameters.values());
        if (gradientFactor != null) {
            requireFactor(gradientFactor);
        }
        try (var range = ProfilerRange.of("optimizer");
                var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            groups.forEach(group -> group.step(gradientFactor));
        }
    }

    private void requireFactor(Tensor gradientFactor) {
        Tensors.requireDefined("gradientFactor", gradientFactor);
        DType dtype = DType.of(gradientFactor);
        boolean isWide = dtype == DType.FLOAT64
                && parameters.values().stream().allMatch(parameter -> DType.of(parameter) == DType.FLOAT64);
        if (dtype != DType.FLOAT32 && !isWide) {
            throw new IllegalArgumentException(
                    "gradientFactor must be fp32, or fp64 if all parameters are fp64, not " + dtype);
        }
        if (gradientFactor.dim() != 0) {
            throw new IllegalArgumentException("gradientFactor must be a 0-dimensional tensor, not of the shape "
                    + Arrays.toString(Tensors.shape(gradientFactor)));
        }
    }

    /**
     * Returns 16-bit copies of parameters and creates those that do not exist. Each later step stores the updated
     * parameters in their copies, too. In mixed precision the forward pass reads the copies, and the parameters are the
     * master weights. The optimizer owns the copies. Those created by one call are adjacent in memory, in the order of
     * the names.
     *
     * @param names names of parameters
     * @param dtype bf16 or fp16
     * @return the copies in the order of the names; empty if a parameter already has a copy in another dtype
     * @throws IllegalArgumentException if the dtype is another, or a name is unknown
     */
    public Optional<List<Tensor>> copies(List<String> names, DType dtype) {
        TrainedParameters.requireOpen(closed);
        if (!dtype.isReducedFloatingPoint()) {
            throw new IllegalArgumentException("dtype must be bf16 or fp16, not " + dtype);
        }
        List<State> copied = new ArrayList<>();
        for (String name : names) {
            State state = states.get(name);
            if (state == null) {
                throw new IllegalArgumentException("parameter " + name + " is not in this optimizer");
            }
            copied.add(state);
        }
        if (copied.stream().anyMatch(state -> state.copy != null && DType.of(state.copy) != dtype)) {
            return Optional.empty();
        }
        List<State> created =
                copied.stream().filter(state -> state.copy == null).distinct().toList();
        if (!created.isEmpty()) {
            try (var scope = MemoryScope.open();
                    var noGrad = NoGrad.open()) {
                Tensor all = torch.cat(new TensorVector(created.stream()
                        .map(state -> state.parameter.flatten().to(dtype.scalarType()))
                        .toArray(Tensor[]::new)));
                long start = 0;
                for (State state : created) {
                    long elements = state.parameter.numel();
                    Tensor part = all.narrow(0, start, elements).view_as(state.parameter);
                    state.copy = MemoryScope.keep(part);
                    state.copiedVersion = state.parameter._version();
                    start += elements;
                }
            }
            groups.forEach(AdamWGroup::closeCohorts);
        }
        return Optional.of(copied.stream().map(state -> state.copy).toList());
    }

    /** Updates the copies of parameters that a PyTorch operator has changed in place since the last step. */
    public void refreshCopies() {
        TrainedParameters.requireOpen(closed);
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            states.values().forEach(State::refreshCopy);
        }
    }

    @Override
    public Map<String, Tensor> state() {
        TrainedParameters.requireOpen(closed);
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        states.forEach((name, state) -> {
            if (state.step > 0) {
                tensors.put(name + ".step", torch.tensor(state.step));
                tensors.put(name + ".m", state.m);
                tensors.put(name + ".v", state.v);
            }
        });
        return tensors;
    }

    @Override
    public void requireLoadable(Map<String, Tensor> saved) {
        TrainedParameters.requireOpen(closed);
        Objects.requireNonNull(saved, "state must not be null");
        Set<String> unknown = new HashSet<>(saved.keySet());
        states.forEach((name, state) -> {
            boolean step = unknown.remove(name + ".step");
            boolean m = unknown.remove(name + ".m");
            boolean v = unknown.remove(name + ".v");
            if (step != m || m != v) {
                throw new IllegalArgumentException(
                        "state of " + name + " is incomplete: it must have " + name + ".step, .m and .v");
            }
            if (step) {
                TrainedParameters.requireLike(name + ".m", saved.get(name + ".m"), state.parameter);
                TrainedParameters.requireLike(name + ".v", saved.get(name + ".v"), state.parameter);
                Tensor count = saved.get(name + ".step");
                if (DType.of(count) != DType.INT64
                        || count.numel() != 1
                        || count.item_long() < 1
                        || count.item_long() > MOST_STEPS) {
                    throw new IllegalArgumentException("state " + name + ".step must be a single int64 from 1 to 2^53");
                }
            }
        });
        if (!unknown.isEmpty()) {
            throw new IllegalArgumentException(
                    "state has the entries " + unknown + ", which belong to no parameter of this optimizer");
        }
    }

    @Override
    public void loadState(Map<String, Tensor> saved) {
        requireLoadable(saved);
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            states.forEach((name, state) -> {
                Tensor step = saved.get(name + ".step");
                if (step == null) {
                    state.reset();
                } else {
                    state.allocate();
                    state.step = step.item_long();
                    state.m.copy_(saved.get(name + ".m"));
                    state.v.copy_(saved.get(name + ".v"));
                }
            });
        }
        groups.forEach(AdamWGroup::closeCohorts);
    }

    @Override
    public void close() {
        closed = true;
        groups.forEach(AdamWGroup::closeCohorts);
        states.values().forEach(state -> {
            state.reset();
            if (state.copy != null) {
                state.copy.close();
            }
        });
        parameters.values().forEach(Tensor::close);
    }

    /** A parameter group, as in {@code torch.optim}. */
    private static final class AdamWGroup {
        private final List<State> states;
        private AdamWSettings settings;
        private List<State> active = List.of();
        private List<Cohort> cohorts = List.of();

        AdamWGroup(List<State> states, AdamWSettings settings) {
            this.states = states;
            this.settings = settings;
        }

        void step(Tensor gradientFactor) {
            List<State> updated = new ArrayList<>(states.size());
            Map<State, Tensor> gradients = new LinkedHashMap<>();
            for (State state : states) {
                Tensor gradient = TrainedParameters.gradient(state.parameter);
                if (gradient != null) {
                    updated.add(state);
                    gradients.put(state, gradient);
                }
            }
            if (!updated.equals(active)) {
                closeCohorts();
                cohorts = Cohort.of(updated);
                active = updated;
            }
            cohorts.forEach(cohort -> cohort.step(gradients, gradientFactor, settings));
        }

        void closeCohorts() {
            cohorts.forEach(Cohort::close);
            cohorts = List.of();
            active = List.of();
        }
    }

    /**
     * The parameters of a group that one kernel call can update: they share device, dtype and step count. A cohort is
     * reused as long as the same parameters have gradients, so its tensor lists are built once.
     */
    private static final class Cohort implements AutoCloseable {
        private record CohortKey(String device, DType dtype, long step) {}

        private final List<State> states;
        private final AdamWUpdate update;

        static List<Cohort> of(List<State> states) {
            Map<CohortKey, List<State>> byKey = new LinkedHashMap<>();
            for (State state : states) {
                Tensor parameter = state.parameter;
                var key = new CohortKey(parameter.device().str().getString(), DType.of(parameter), state.step);
                byKey.computeIfAbsent(key, k -> new ArrayList<>()).add(state);
            }
            return byKey.values().stream().map(Cohort::new).toList();
        }

        private Cohort(List<State> states) {
            this.states = states;
            states.forEach(State::allocate);
            update = AdamWKernel.find(new AdamWTensors(
                    states.stream().map(state -> state.parameter).toList(),
                    states.stream().map(state -> state.m).toList(),
                    states.stream().map(state -> state.v).toList(),
                    states.stream().map(state -> state.copy).toList()));
        }

        void step(Map<State, Tensor> gradients, Tensor gradientFactor, AdamWSettings settings) {
            states.forEach(state -> state.step++);
            long t = states.get(0).step;
            double eps = settings.eps();
            if (settings.order() != Order.TORCH) {
                // √v + ε = √(1 − β₂ᵗ) · (√v̂ + ε / √(1 − β₂ᵗ)); the kernel adds its ε to √v̂.
                eps /= Math.sqrt(1 - Math.pow(settings.beta2(), t));
            }
            double learningRate = settings.learningRate();
            double weightDecay = settings.weightDecay();
            if (settings.order() == Order.DECAY_AFTER) {
                // (θ − αu)(1 − αλ) = θ(1 − αλ) − α(1 − αλ)u: decay first, as the kernel does, then a smaller update.
                double decayFactor = 1 - learningRate * weightDecay;
                learningRate *= decayFactor;
                weightDecay /= decayFactor;
            }
            update.step(
                    states.stream().map(gradients::get).toList(),
                    gradientFactor,
                    new AdamWScalars(t, learningRate, settings.beta1(), settings.beta2(), weightDecay, eps));
            states.stream()
                    .filter(state -> state.copy != null)
                    .forEach(state -> state.copiedVersion = state.parameter._version());
        }

        @Override
        public void close() {
            update.close();
        }
    }
}
