package cs336.basics;

import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.ProfilerRange;
import cs336.torch.ShardedParameters;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.bytedeco.pytorch.Tensor;

/**
 * A layer with parameters, buffers and child layers, like {@code torch.nn.Module}: a function of one tensor. Written in
 * Java; only the tensors and their operations are PyTorch's.
 *
 * <pre>{@code
 * class Mlp extends NnModule {
 *     private final Linear up = child("up", new Linear(64, 256, true, device, DType.FLOAT32));
 *     private final Dropout dropout = child("dropout", new Dropout(0.1));
 *     private final Linear down = child("down", new Linear(256, 64, true, device, DType.FLOAT32));
 *
 *     protected Tensor compute(Tensor x) {
 *         return down.forward(dropout.forward(torch.gelu(up.forward(x))));
 *     }
 * }
 * }</pre>
 */
public abstract class NnModule implements AutoCloseable {
    /** The listener of {@link #construct}; null outside of it. */
    private static final ThreadLocal<BiConsumer<NnModule, Tensor>> LISTENER = new ThreadLocal<>();

    private static final AtomicLong CHANGES = new AtomicLong();

    private final Map<String, Tensor> parameters = new LinkedHashMap<>();
    private final Map<String, Tensor> buffers = new LinkedHashMap<>();
    private final Set<String> unsaved = new HashSet<>(); // the names of buffers that are not in the state dict
    private final Map<String, NnModule> children = new LinkedHashMap<>();
    private boolean training = true;
    private boolean closed;
    private final List<Runnable> beforeForward = new CopyOnWriteArrayList<>();
    private final List<Consumer<Tensor>> afterForward = new CopyOnWriteArrayList<>();
    private String name = typeName(); // for a child, the name that its parent gave it

    /**
     * Runs the forward pass in a {@link ProfilerRange} of the layer's name. Intermediate tensors are freed when it
     * returns, except for those that the backward pass needs.
     *
     * @return the output, in the caller's memory scope
     * @throws IllegalArgumentException if the input is null, closed or undefined, or has a shape or type that the layer
     *     does not accept
     * @throws IllegalStateException if the layer is closed or computes null or a closed tensor
     */
    public final Tensor forward(Tensor input) {
        Tensors.requireDefined("input", input);
        return run(() -> compute(input));
    }

    /**
     * Runs another computation of this layer in the same way as a forward pass, for example of several inputs:
     *
     * <pre>{@code
     * Tensor forward(Tensor x, Tensor memory) {
     *     return run(() -> x.add(crossAttention.forward(norm.forward(x), memory)));
     * }
     * }</pre>
     *
     * @return the result, in the caller's memory scope
     * @throws IllegalStateException if the layer is closed, or the computation returns null or a closed tensor
     */
    protected final Tensor run(Supplier<Tensor> computation) {
        requireOpen();
        try (var range = ProfilerRange.of(name);
                var scope = MemoryScope.open()) {
            beforeForward.forEach(Runnable::run);
            Tensor output = computation.get();
            if (output == null || output.isNull()) {
                throw new IllegalStateException(
                        name + " must compute a tensor, not " + (output == null ? "null" : "a closed one"));
            }
            for (Consumer<Tensor> action : afterForward) {
                action.accept(output);
            }
            return scope.escape(new Tensor(output)); // the input, or an element of a container, is not of this scope
        }
    }

    /**
     * Adds an action that runs at the beginning of each forward pass of this layer, for example to wait until its
     * parameters have arrived from another rank. Actions run in the order in which they were added.
     */
    public final void beforeForward(Runnable action) {
        beforeForward.add(Objects.requireNonNull(action, "action must not be null"));
    }

    /** Removes an action that {@link #beforeForward} has added; does nothing if there is none. */
    public final void removeBeforeForward(Runnable action) {
        beforeForward.remove(action);
    }

    /**
     * Adds an action that runs at the end of each forward pass of this layer and receives its output, for example to
     * free parameters. It does not run after an exception. Actions run in the order in which they were added.
     */
    public final void afterForward(Consumer<Tensor> action) {
        afterForward.add(Objects.requireNonNull(action, "action must not be null"));
    }

    /** Returns whether {@link #afterForward} has added an action. */
    final boolean hasActionAfterForward() {
        return !afterForward.isEmpty();
    }

    /** Removes all actions before and after forward passes of this layer. */
    public final void removeActions() {
        beforeForward.clear();
        afterForward.clear();
    }

    /** Returns this layer and all its descendants, parents before children, and each once if it has several names. */
    public final List<NnModule> layers() {
        Set<NnModule> layers = new LinkedHashSet<>();
        layers.add(this);
        children.values().forEach(child -> layers.addAll(child.layers()));
        return List.copyOf(layers);
    }

    /** Returns the layers directly inside of this one. */
    public final List<NnModule> children() {
        return List.copyOf(children.values());
    }

    /** Returns the layers directly inside of this one by name. */
    final Map<String, NnModule> namedChildren() {
        return Collections.unmodifiableMap(children);
    }

    /** Returns the parameters of this layer itself by name; includes shared parameters. */
    final Map<String, Tensor> ownNamedParameters() {
        return Collections.unmodifiableMap(parameters);
    }

    /** Returns the parameters of this layer itself, without those of its children; includes shared parameters. */
    public final List<Tensor> ownParameters() {
        return List.copyOf(parameters.values());
    }

    /**
     * Computes the output of the layer, which may be the input itself. {@link #forward} calls it and returns a new
     * {@link Tensor} object for the output.
     */
    protected abstract Tensor compute(Tensor input);

    /**
     * Registers a trainable parameter under this name. It lives until {@link #close}.
     *
     * @throws IllegalArgumentException if the layer has a parameter of this name, the value is neither floating-point
     *     nor complex, or it has an autograd graph: it would never get a gradient
     */
    protected final Tensor parameter(String name, Tensor value) {
        requireLeaf(name, value);
        requireNewTensor(name);
        value.set_requires_grad(true);
        parameters.put(name, MemoryScope.keep(value));
        CHANGES.incrementAndGet();
        BiConsumer<NnModule, Tensor> listener = LISTENER.get();
        if (listener != null) {
            listener.accept(this, value);
        }
        return value;
    }

    private static void requireLeaf(String name, Tensor parameter) {
        Tensors.requireDefined("parameter " + name, parameter);
        if (!parameter.is_complex()) {
            Tensors.requireFloating("parameter " + name, parameter);
        }
        if (!parameter.is_leaf()) {
            throw new IllegalArgumentException("parameter " + name
                    + " must not be computed from tensors that require a gradient, unless grad mode is off; detach it");
        }
    }

    /**
     * Runs the constructor of a module, and passes each parameter to a listener as soon as it exists. If the listener
     * keeps only a shard of each parameter, the whole model is never in memory.
     *
     * @param listener receives the layer that owns the parameter, and the parameter; the constructor of the layer has
     *     not ended yet
     */
    public static <M extends NnModule> M construct(Supplier<M> constructor, BiConsumer<NnModule, Tensor> listener) {
        Objects.requireNonNull(listener, "listener must not be null");
        BiConsumer<NnModule, Tensor> outer = LISTENER.get();
        LISTENER.set(listener);
        try {
            return constructor.get();
        } finally {
            LISTENER.set(outer);
        }
    }

    /**
     * Registers a parameter that another layer owns, as a tied output head does.
     *
     * @throws IllegalArgumentException if the layer has a parameter of this name, or the tensor has an autograd graph
     */
    protected final Tensor share(String name, Tensor parameter) {
        requireLeaf(name, parameter);
        requireNewTensor(name);
        parameters.put(name, parameter);
        CHANGES.incrementAndGet();
        return parameter;
    }

    /**
     * Registers a tensor that is saved and loaded like a parameter but not trained, such as running statistics; see
     * {@link #buffer(String, Tensor, boolean)}.
     */
    protected final Tensor buffer(String name, Tensor value) {
        return buffer(name, value, true);
    }

    /**
     * Registers a tensor that is not trained under this name, like {@code register_buffer}. It lives until
     * {@link #close}. The layer changes it in place.
     *
     * @param persistent whether it belongs to the {@linkplain #stateDict state dict}; false for values that the
     *     constructor computes, such as a rotary table
     * @throws IllegalArgumentException if the layer has a parameter or buffer of this name, or the value requires a
     *     gradient
     */
    protected final Tensor buffer(String name, Tensor value, boolean persistent) {
        Tensors.requireDefined("buffer " + name, value);
        if (value.requires_grad()) {
            throw new IllegalArgumentException("buffer " + name + " must not require a gradient; detach it");
        }
        requireNewTensor(name);
        buffers.put(name, MemoryScope.keep(value));
        if (!persistent) {
            unsaved.add(name);
        }
        return value;
    }

    private void requireNewTensor(String name) {
        requireNew("parameter", parameters.keySet(), name);
        requireNew("buffer", buffers.keySet(), name);
    }

    private void requireNew(String kind, Set<String> known, String name) {
        if (known.contains(name)) {
            throw new IllegalArgumentException(typeName() + " already has a " + kind + " " + name);
        }
    }

    /**
     * Registers a child layer under this name, which may contain dots.
     *
     * @throws IllegalArgumentException if the layer has a child of this name, or the child is or contains this layer
     */
    protected final <M extends NnModule> M child(String name, M module) {
        Objects.requireNonNull(module, "child " + name + " must not be null");
        requireNew("child", children.keySet(), name);
        put(name, module);
        return module;
    }

    /**
     * Replaces the child layer of this name, for example by a layer that contains it; for low-rank adapters see
     * {@link Linear#adapt}. The layer must then call the new child. The old child is not closed. Optimizers and other
     * users of the parameters must be created afterwards.
     *
     * @return the new child
     * @throws IllegalArgumentException if the layer has no child of this name, or the new child is or contains this
     *     layer
     */
    protected final <M extends NnModule> M replaceChild(String name, M module) {
        Objects.requireNonNull(module, "child " + name + " must not be null");
        requireChild(name);
        put(name, module);
        return module;
    }

    /**
     * Removes the child layer of this name, without closing it.
     *
     * @throws IllegalArgumentException if the layer has no child of this name
     */
    protected final void removeChild(String name) {
        requireChild(name);
        children.remove(name);
        CHANGES.incrementAndGet();
    }

    private void requireChild(String name) {
        if (!children.containsKey(name)) {
            throw new IllegalArgumentException(typeName() + " has no child " + name);
        }
    }

    private void put(String name, NnModule module) {
        if (module.layers().contains(this)) {
            throw new IllegalArgumentException("child " + name + " must not contain its parent");
        }
        children.put(name, module);
        module.name = name;
        CHANGES.incrementAndGet();
    }

    /** Sets this layer and all its descendants to training mode, in which for example {@link Dropout} is active. */
    public final void train() {
        train(true);
    }

    /** Sets this layer and all its descendants to evaluation mode. It does not turn off grad mode. */
    public final void eval() {
        train(false);
    }

    /**
     * Sets the mode of this layer and all its descendants, like {@code Module.train(mode)}.
     *
     * @param mode true for training, false for evaluation
     */
    public final void train(boolean mode) {
        layers().forEach(layer -> layer.training = mode);
        CHANGES.incrementAndGet();
    }

    /**
     * Returns a counter of changes to all modules of this process. It increases when a module gets a parameter, when a
     * child is added, replaced or removed, when a training mode is set, and when a module is closed.
     */
    public static long changes() {
        return CHANGES.get();
    }

    /** Returns whether this layer is in training mode, as after its construction. */
    public final boolean isTraining() {
        return training;
    }

    /**
     * Returns all parameters by name, such as {@code layers.0.attn.q_proj.weight}, in registration order. A shared
     * parameter is listed once, under its first name.
     *
     * @throws IllegalStateException if two parameters have the same name
     */
    public final Map<String, Tensor> namedParameters() {
        return named("parameters", layer -> layer.parameters);
    }

    /**
     * Returns all buffers by name, such as {@code norm.running_mean}, also those that are not in the state dict. A
     * shared buffer is listed once, under its first name.
     *
     * @throws IllegalStateException if two buffers have the same name
     */
    public final Map<String, Tensor> namedBuffers() {
        return named("buffers", layer -> layer.buffers);
    }

    /**
     * Returns what a checkpoint must contain, by name and in PyTorch's order: the parameters and persistent buffers of
     * this layer, then those of each child. These are the tensors in use, not copies. A shared tensor is listed once,
     * under its first name.
     *
     * @throws IllegalStateException if two tensors have the same name
     */
    public final Map<String, Tensor> stateDict() {
        return named("tensors", NnModule::ownState);
    }

    private Map<String, Tensor> ownState() {
        Map<String, Tensor> own = new LinkedHashMap<>(parameters);
        own.putAll(buffers);
        own.keySet().removeAll(unsaved);
        return own;
    }

    private Map<String, Tensor> named(String what, Function<NnModule, Map<String, Tensor>> own) {
        Map<String, Tensor> named = new LinkedHashMap<>();
        collect("", what, own, named, Collections.newSetFromMap(new IdentityHashMap<>()));
        return Collections.unmodifiableMap(named);
    }

    private void collect(
            String prefix,
            String what,
            Function<NnModule, Map<String, Tensor>> own,
            Map<String, Tensor> named,
            Set<Tensor> seen) {
        own.apply(this).forEach((name, tensor) -> {
            if (seen.add(tensor) && named.put(prefix + name, tensor) != null) {
                throw new IllegalStateException("two " + what + " have the name " + prefix + name);
            }
        });
        children.forEach((name, child) -> child.collect(prefix + name + ".", what, own, named, seen));
    }

    /** Returns all parameters, each once. */
    public final List<Tensor> parameters() {
        Set<Tensor> seen = Collections.newSetFromMap(new IdentityHashMap<>());
        return layers().stream()
                .flatMap(layer -> layer.parameters.values().stream())
                .filter(seen::add)
                .collect(Collectors.toCollection(ArrayList::new));
    }

    /**
     * Checks that the layer can be used.
     *
     * @throws IllegalStateException if it is closed
     */
    public final void requireOpen() {
        if (closed) {
            throw new IllegalStateException(name + " is closed");
        }
    }

    /**
     * Returns the number of elements of all parameters.
     *
     * @throws IllegalArgumentException if a container shards the parameters
     * @throws IllegalStateException if the layer is closed
     */
    public final long parameterCount() {
        requireOpen();
        requireUnsharded();
        return parameters().stream().mapToLong(Tensor::numel).sum();
    }

    /**
     * Frees the gradients of all parameters, like {@code zero_grad(set_to_none=True)}: they are undefined until the
     * next backward pass.
     *
     * @throws IllegalArgumentException if a container shards the parameters: it has the gradients
     * @throws IllegalStateException if the layer is closed
     */
    public final void zeroGrad() {
        requireOpen();
        requireUnsharded();
        parameters().forEach(parameter -> parameter.mutable_grad().reset());
    }

    private void requireUnsharded() {
        parameters().forEach(parameter -> ShardedParameters.requireUnsharded("a parameter of " + name, parameter));
    }

    /**
     * Copies values into all parameters and persistent buffers, converted to the device and dtype of each.
     *
     * @param values a tensor for each name of {@link #stateDict}
     * @throws IllegalArgumentException if a tensor is missing, a name is unknown, a shape differs, or a container
     *     shards the parameters; then nothing changes
     * @throws IllegalStateException if the layer is closed
     */
    public final void load(Map<String, Tensor> values) {
        requireOpen();
        requireUnsharded();
        Objects.requireNonNull(values, "values must not be null");
        Map<String, Tensor> state = stateDict();
        Set<String> ofParameters = namedParameters().keySet();
        for (String given : values.keySet()) {
            if (!state.containsKey(given)) {
                throw new IllegalArgumentException("there is no parameter or persistent buffer " + given);
            }
        }
        state.forEach((tensorName, tensor) -> {
            String what = (ofParameters.contains(tensorName) ? "parameter " : "buffer ") + tensorName;
            if (!values.containsKey(tensorName)) {
                throw new IllegalArgumentException("values must contain " + what);
            }
            Tensors.requireShape(what, values.get(tensorName), Tensors.shape(tensor));
        });
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            state.forEach((tensorName, tensor) -> tensor.copy_(values.get(tensorName)));
        }
    }

    /** Returns the simple name of the class; for an anonymous class, which has none, that of its superclass. */
    final String typeName() {
        Class<?> type = getClass();
        return (type.isAnonymousClass() ? type.getSuperclass() : type).getSimpleName();
    }

    /** Returns the layers as a tree, with the shapes and numbers of their parameters. */
    @Override
    public String toString() {
        return closed ? typeName() + ", closed" : ModuleTree.of(this);
    }

    /** Frees resources of this layer other than parameters, buffers and child layers. By default there are none. */
    protected void free() {}

    /**
     * Frees the parameters, including those that it {@linkplain #share shares} with other layers, the buffers, and all
     * child layers. The layer cannot be used afterwards.
     */
    @Override
    public void close() {
        parameters().forEach(Tensor::close);
        layers().forEach(layer -> {
            layer.buffers.values().forEach(Tensor::close);
            layer.closed = true;
            layer.free();
        });
        CHANGES.incrementAndGet();
    }
}
