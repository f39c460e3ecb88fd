package cs336.compile;

import cs336.basics.NnModule;
import cs336.checkpointing.RandomState;
import cs336.compile.CompiledProgram.CompiledRun;
import cs336.compile.fuse.MasterWeights;
import cs336.compile.program.Layout;
import cs336.compile.trace.TensorFunction;
import cs336.compile.trace.UnrecordableException;
import cs336.torch.Autocast;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.OperatorInterceptor;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.Tensor;

/**
 * A function of tensors that is recorded once and then runs as an optimized program: {@code torch.compile}.
 *
 * <pre>{@code
 * try (var gelu = Compiled.of(in -> new Tensor[] {in[0].mul(normalDistribution(in[0]))})) {
 *     Tensor y = gelu.apply(x)[0]; // records, fuses and runs
 *     Tensor z = gelu.apply(x)[0]; // runs the fused kernel
 *     System.out.println(gelu.explain());
 * }
 * }</pre>
 *
 * <p>A call records again, as {@code torch.compile} recompiles, if one of these has changed:
 *
 * <ul>
 *   <li>a dtype, shape, stride or device of the inputs, or which of them share memory;
 *   <li>{@code requires_grad} of an input or parameter;
 *   <li>grad mode, autocast or TF32;
 *   <li>the training mode or a child of its layer.
 * </ul>
 *
 * <p>The function may also read other tensors, such as parameters, whose elements may change. An input must not share
 * memory with such a tensor, unless it is one of the parameters of {@link #of(TensorFunction, List)}. The function must
 * not depend on anything else that changes. A recording does not notice reads through pointers, such as those that
 * {@code createIndexer()} and {@code data_ptr()} return, nor that {@code tensor_split} reads a tensor of indices. A
 * replay does not repeat the checks of elements that some operators end with. For a singular matrix {@code linalg_inv}
 * throws an exception in plain execution; a replay returns the result of {@code linalg_inv_ex}. {@code torch.equal} of
 * a tensor with itself is false if an element is NaN. A call that records refuses this; a replay does not check for
 * NaN.
 *
 * <p>{@link CompiledStep} compiles whole training steps. Kernels of the package {@code cs336.kernels.gemm} compute some
 * matrix multiplications instead of cuBLAS; for the accuracy of those in fp32, see {@link cs336.kernels.gemm.Fp32Gemm}.
 * {@link cs336.kernels.runtime.TileSearch} searches for the fastest tile of each generated kernel.
 * {@link #keepAttention}, {@link #asGraph} and {@link #orPlain} return new objects with separate recordings; close each
 * one that was called. All methods must be called on the same thread.
 */
public final class Compiled implements AutoCloseable {
    /**
     * The properties of an input that a recording depends on.
     *
     * @param negated whether the input is lazily negated
     * @param first the index of the first input that shares memory with this one
     * @param parameter the index of the parameter that shares memory with it, or −1
     */
    private record InputGuard(Layout layout, boolean negated, Device device, int first, int parameter) {}

    /**
     * The properties of a call that a recording depends on.
     *
     * @param trainable whether a gradient flows to each input, then to each parameter
     * @param layerState the number of the layer's {@link ModuleState}; 0 for a function without a layer
     */
    private record Guard(
            List<InputGuard> inputs,
            List<Boolean> trainable,
            int layerState,
            boolean gradMode,
            String autocast,
            boolean tf32) {
        Device device() {
            return inputs.stream()
                    .map(InputGuard::device)
                    .filter(Device::isCuda)
                    .findFirst()
                    .orElse(Device.cpu());
        }
    }

    /** The program that calls with one guard run, or the function itself. */
    private record Recording(TensorFunction run, boolean isCompiled, Supplier<String> explain, Runnable close) {}

    private final TensorFunction function;
    private final List<Tensor> parameters; // of a function without a layer
    private final ModuleState layer; // null for a function without a layer
    private final boolean keepsAttention;
    private final boolean graphed;
    private final boolean fallsBack;
    private final Map<Guard, Recording> recordings = new LinkedHashMap<>();
    private boolean closed;

    private Compiled(
            TensorFunction function,
            List<Tensor> parameters,
            ModuleState layer,
            boolean keepsAttention,
            boolean graphed,
            boolean fallsBack) {
        this.function = Objects.requireNonNull(function, "function must not be null");
        this.layer = layer;
        this.parameters = List.copyOf(parameters);
        this.keepsAttention = keepsAttention;
        this.graphed = graphed;
        this.fallsBack = fallsBack;
    }

    /** Returns the function itself, where it cannot be compiled. */
    private Recording plain(String reason) {
        String text = "called without being compiled: " + reason + "\n";
        return new Recording(in -> inNewHandles(function.apply(in)), false, () -> text, () -> {});
    }

    /** Returns the compiled form of a function. Nothing is recorded before the first call. */
    public static Compiled of(TensorFunction function) {
        return of(function, List.of());
    }

    /**
     * Returns the compiled form of a function that also reads parameters. For those of a layer,
     * {@link #of(TensorFunction, NnModule)} also takes its training mode into account.
     *
     * @param parameters the tensors, in addition to the inputs, to which gradients flow
     */
    public static Compiled of(TensorFunction function, List<Tensor> parameters) {
        Objects.requireNonNull(parameters, "parameters must not be null");
        return new Compiled(function, parameters, null, false, false, false);
    }

    /** Returns the compiled forward pass of a layer: {@code Compiled.of(model).apply(ids)[0]}. */
    public static Compiled of(NnModule layer) {
        Objects.requireNonNull(layer, "layer must not be null");
        return of(in -> new Tensor[] {layer.forward(in[0])}, layer);
    }

    /**
     * Returns the compiled form of a function that calls a layer, for example one with several inputs:
     * {@code Compiled.of(in -> new Tensor[] {decoder.forward(in[0], in[1])}, decoder)}. Gradients flow to the
     * parameters that it has at the time of a call.
     */
    public static Compiled of(TensorFunction function, NnModule layer) {
        Objects.requireNonNull(layer, "layer must not be null");
        return new Compiled(function, List.of(), new ModuleState(layer), false, false, false);
    }

    /**
     * Returns a version that does not replace plain attention by FlashAttention, so that its scores are stored. By
     * default it is replaced on a GPU that has a kernel for it.
     */
    public Compiled keepAttention() {
        return new Compiled(function, parameters, layer, true, graphed, fallsBack);
    }

    /**
     * Returns a version whose calls without gradients run as a CUDA graph on a GPU, which removes their launch
     * overhead. Such a call overwrites the outputs of the previous call of the same recording. Calls with gradients run
     * without a graph. The second call with the same kind of inputs records the graph. It throws
     * {@link IllegalStateException} if the function writes to its inputs or to tensors outside of it, or if inputs with
     * different dtypes share memory.
     */
    public Compiled asGraph() {
        return new Compiled(function, parameters, layer, keepsAttention, true, fallsBack);
    }

    /**
     * Returns a version that calls the function itself with inputs for which it cannot be recorded. The first of these
     * calls begins a recording and then calls the function again, so the function must not write to its inputs.
     */
    public Compiled orPlain() {
        return new Compiled(function, parameters, layer, keepsAttention, graphed, true);
    }

    /**
     * Calls the function. With grad mode on and an input or parameter that requires a gradient, the outputs are
     * differentiable once. The first call with gradients runs the function twice. A function with gradients is called
     * without being compiled in three cases: it writes to tensors outside of it, none of its outputs requires a
     * gradient, or it writes in place to an intermediate tensor. On a GPU, writes of simple operators to a whole tensor
     * are compiled. {@link #recordings} does not count such a function, and {@link #explain} names the operator. A call
     * inside of a function that is being recorded becomes a part of that recording.
     *
     * <p>Random operators draw new numbers in each call. After the same seed these may differ from the numbers of the
     * plain function. The program omits random operators whose results are unused. On a GPU, kernels of dropout draw
     * their numbers by Philox. Its seed is one random number of the device per call, or per replay of a graph that
     * contains calls. After {@code manual_seed} the calls repeat their numbers, also those of a call that records. A
     * function that writes to tensors outside of it is an exception: its first call draws those of the plain function.
     *
     * @return the outputs, in the caller's memory scope. They share memory neither with each other nor with an input.
     * @throws UnrecordableException if the function cannot be recorded, for example because it reads elements of
     *     tensors on the host, unless {@link #orPlain}. The message names the operator and the source line
     * @throws IllegalArgumentException if there is no input, or one is null, undefined, not dense or of a dtype that
     *     {@link DType} does not have; also with {@link #orPlain}
     * @throws IllegalStateException if an output has a gradient for a tensor that is neither an input nor a parameter,
     *     or this, the layer or a parameter is closed
     */
    public Tensor[] apply(Tensor... inputs) {
        if (closed) {
            throw new IllegalStateException("this compiled function is closed");
        }
        List<Tensor> read = layer == null ? parameters : layer.parameters();
        if (read.stream().anyMatch(parameter -> parameter.isNull())) {
            throw new IllegalStateException("a parameter of this compiled function is closed");
        }
        requireUsable(inputs);
        if (OperatorInterceptor.isActive()) {
            return function.apply(inputs);
        }
        Guard guard = guard(read, inputs);
        try (var scope = MemoryScope.open()) {
            Recording recording = recordings.get(guard);
            return scope.escapeAll(recording == null ? record(guard, read, inputs) : recording.run.apply(inputs));
        }
    }

    /** Returns handles that can leave a memory scope: inputs and elements of containers belong elsewhere. */
    static Tensor[] inNewHandles(Tensor[] tensors) {
        return Arrays.stream(tensors)
                .map(tensor -> tensor == null ? null : new Tensor(tensor))
                .toArray(Tensor[]::new);
    }

    /** Records the function, and returns the outputs of the call. */
    private Tensor[] record(Guard guard, List<Tensor> read, Tensor... inputs) {
        RandomState random = RandomState.of(inputs);
        Tensor[] outputs = null; // until a run computes them
        try {
            outputs = guard.trainable().contains(true)
                    ? recordWithGradients(guard, distinct(read), inputs)
                    : recordWithoutGradients(guard, random, inputs);
        } catch (UnrecordableException e) {
            if (!fallsBack) {
                throw e;
            }
            recordings.put(guard, plain(e.getMessage()));
        }
        if (outputs == null && random.orNullIfUnused() != null) {
            random.restore(); // the run draws the numbers that a later call draws in this state
        }
        return outputs == null ? recordings.get(guard).run.apply(inputs) : outputs;
    }

    /**
     * Returns the outputs of the recorded call, or null if another run has to compute them.
     *
     * @param random the state before the recording
     */
    private Tensor[] recordWithoutGradients(Guard guard, RandomState random, Tensor... inputs) {
        CompiledRun run =
                CompiledProgram.record(function, guard.device(), keepsAttention, Map.of(), MasterWeights.NONE, inputs);
        CompiledProgram program = run.program();
        boolean isGraph = graphed && guard.device().isCuda();
        TensorFunction compiled = isGraph ? program::runGraph : program::run;
        recordings.put(guard, new Recording(compiled, true, program::explain, program::close));
        // The plain function has drawn other random numbers than the program.
        boolean runsAgain =
                random.orNullIfUnused() != null && !program.optimized().writesOutside();
        return runsAgain ? null : run.outputs();
    }

    /** Returns the outputs of the recorded call, or null if another run has to compute them. */
    private Tensor[] recordWithGradients(Guard guard, List<Tensor> read, Tensor... inputs) {
        var attempt = DifferentiableProgram.record(
                function, guard.device(), keepsAttention, read.size(), concatenated(inputs, read));
        DifferentiableProgram program = attempt.program();
        Recording recording = program == null
                ? plain(attempt.reason())
                : new Recording(in -> program.call(concatenated(in, read)), true, program::explain, program::close);
        recordings.put(guard, recording);
        return attempt.outputs();
    }

    /** Returns each parameter once: a tied one has one gradient. */
    private static List<Tensor> distinct(List<Tensor> parameters) {
        Map<Long, Tensor> distinct = new LinkedHashMap<>();
        parameters.forEach(p -> distinct.putIfAbsent(p.unsafeGetTensorImpl().address(), p));
        return List.copyOf(distinct.values());
    }

    private static Tensor[] concatenated(Tensor[] inputs, List<Tensor> read) {
        return Stream.concat(Arrays.stream(inputs), read.stream()).toArray(Tensor[]::new);
    }

    /** @param read the parameters that the function reads */
    private Guard guard(List<Tensor> read, Tensor... inputs) {
        List<InputGuard> guards = new ArrayList<>();
        for (Tensor input : inputs) {
            int first = indexOfAlias(input, List.of(inputs));
            long distance = bytesBefore(input) - bytesBefore(inputs[first]);
            Device device = Device.of(input);
            Layout layout = Layout.of(input).withOffset(distance);
            guards.add(new InputGuard(layout, input.is_neg(), device, first, indexOfAlias(input, read)));
        }
        List<Boolean> trainable = Arrays.stream(concatenated(inputs, read))
                .map(tensor -> GradMode.is_enabled() && tensor.requires_grad())
                .toList();
        int state = layer == null ? 0 : layer.number();
        return new Guard(guards, trainable, state, GradMode.is_enabled(), Autocast.state(), Torch.allowsTf32());
    }

    private static long bytesBefore(Tensor tensor) {
        return tensor.storage_offset() * tensor.element_size();
    }

    /** Returns the index of the first tensor that shares memory with an input, or −1. */
    private static int indexOfAlias(Tensor input, List<Tensor> tensors) {
        for (int i = 0; i < tensors.size(); i++) {
            if (tensors.get(i).is_alias_of(input)) {
                return i;
            }
        }
        return -1;
    }

    private static void requireUsable(Tensor... inputs) {
        if (inputs.length == 0) {
            throw new IllegalArgumentException("inputs must contain at least one tensor");
        }
        for (int i = 0; i < inputs.length; i++) {
            if (inputs[i] == null || inputs[i].isNull() || !inputs[i].defined()) {
                throw new IllegalArgumentException("input " + i + " must be a defined tensor");
            }
            if (!inputs[i].has_storage()) {
                throw new IllegalArgumentException("input " + i + " must be a dense tensor");
            }
            try {
                DType.of(inputs[i]);
            } catch (IllegalArgumentException e) {
                throw new IllegalArgumentException("input " + i + ": " + e.getMessage(), e);
            }
        }
    }

    /** Returns the number of compiled programs so far. */
    public int recordings() {
        return (int) recordings.values().stream().filter(Recording::isCompiled).count();
    }

    /**
     * Returns the recorded program of each recording. One without gradients also has the fused program and the sources
     * of the generated kernels, one with gradients the programs of both passes. For inputs with which the function is
     * called without being compiled, the text states the reason.
     */
    public String explain() {
        return recordings.values().stream()
                .map(recording -> recording.explain.get())
                .collect(Collectors.joining());
    }

    /** Frees the recordings. */
    @Override
    public void close() {
        closed = true;
        recordings.values().forEach(recording -> recording.close.run());
        recordings.clear();
    }
}
