package cs336.basics;

import cs336.torch.MemoryScope;
import cs336.torch.ProfilerRange;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;

/**
 * A layer: a function of one tensor with parameters of its own and layers inside it. Pure Java; only the tensors are
 * PyTorch's.
 */
public abstract class NnModule implements AutoCloseable {
    private final Map<String, Tensor> parameters = new LinkedHashMap<>();
    private final Map<String, NnModule> children = new LinkedHashMap<>();
    private Runnable beforeForward = () -> {};
    private String name = getClass().getSimpleName(); // of a layer inside another one: what that one calls it

    /**
     * Applies the layer, in a {@link ProfilerRange} of its name. What it makes on the way is freed when it returns,
     * except for what the backward pass needs.
     *
     * @return the output, in the caller's memory scope
     */
    public final Tensor forward(Tensor input) {
        try (var range = ProfilerRange.of(name);
                var scope = MemoryScope.open()) {
            beforeForward.run();
            return scope.escape(compute(input));
        }
    }

    /**
     * Has something done at the beginning of each forward pass of this layer, in place of what was set before: to wait
     * until its parameters have come from another device, say.
     */
    public final void beforeForward(Runnable action) {
        beforeForward = action;
    }

    /** This layer and all inside it, each before those inside it. */
    public final List<NnModule> layers() {
        List<NnModule> layers = new ArrayList<>();
        layers.add(this);
        children.values().forEach(child -> layers.addAll(child.layers()));
        return layers;
    }

    /** The parameters that this layer computes with, without those of layers inside it; shared ones are among them. */
    public final List<Tensor> ownParameters() {
        return List.copyOf(parameters.values());
    }

    /** The layer's formula: a new tensor from the input. */
    protected abstract Tensor compute(Tensor input);

    /** Adds a parameter under this name and makes it learn. It lives until {@link #close}. */
    protected final Tensor parameter(String name, Tensor value) {
        value.set_requires_grad(true);
        return share(name, MemoryScope.keep(value));
    }

    /** Adds a parameter that another layer owns, as a tied output head does. */
    protected final Tensor share(String name, Tensor parameter) {
        parameters.put(name, parameter);
        return parameter;
    }

    /** Adds a layer inside this one under this name, which may contain dots. */
    protected final <M extends NnModule> M child(String name, M module) {
        children.put(name, module);
        NnModule child = module;
        child.name = name;
        return module;
    }

    /**
     * All parameters by name, such as {@code layers.0.attn.q_proj.weight}, in the order in which they were added. One
     * that stands in several places is listed once, under its first name.
     */
    public final Map<String, Tensor> namedParameters() {
        Map<String, Tensor> named = new LinkedHashMap<>();
        Set<Tensor> seen = Collections.newSetFromMap(new IdentityHashMap<>());
        collect("", named, seen);
        return Collections.unmodifiableMap(named);
    }

    private void collect(String prefix, Map<String, Tensor> named, Set<Tensor> seen) {
        parameters.forEach((name, parameter) -> {
            if (seen.add(parameter)) {
                named.put(prefix + name, parameter);
            }
        });
        children.forEach((name, child) -> child.collect(prefix + name + ".", named, seen));
    }

    /** All parameters, each once. */
    public final List<Tensor> parameters() {
        return new ArrayList<>(namedParameters().values());
    }

    /** How many numbers the parameters hold. */
    public final long parameterCount() {
        return parameters().stream().mapToLong(Tensor::numel).sum();
    }

    /** Frees the parameters; the layer cannot be used afterwards. */
    @Override
    public void close() {
        parameters().forEach(Tensor::close);
    }
}
