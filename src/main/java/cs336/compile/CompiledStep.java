package cs336.compile;

import cs336.basics.AdamW;
import cs336.basics.GradScaler;
import cs336.basics.GradientClipping;
import cs336.basics.Losses;
import cs336.basics.NnModule;
import cs336.basics.Optimizer;
import cs336.basics.TransformerLM;
import cs336.bench.ArgumentCheck;
import cs336.bench.Precision;
import cs336.compile.fuse.MasterWeights;
import cs336.compile.program.Layout;
import cs336.compile.program.Program;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.training.DistributedDataParallel;
import cs336.distributed.training.NoSync;
import cs336.distributed.training.ShardedOptimizer;
import cs336.kernels.gemm.Fp32Gemm;
import cs336.torch.Autocast;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.ProfilerRange;
import cs336.torch.ShardedParameters;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.BinaryOperator;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;

/**
 * A training step whose forward and backward passes are one CUDA graph, so that the host launches them with one call.
 * With {@link #fuse} the passes are first recorded as a {@link Program}, in which groups of small operations become one
 * generated kernel each.
 *
 * <pre>{@code
 * try (var step = CompiledStep.of(model, optimizer, Precision.BF16).fuse().clip(1.0)) {
 *     for (var batch : batches) {
 *         Tensor loss = step.run(batch.inputs(), batch.targets());
 *     }
 * }
 * }</pre>
 *
 * <p>For each input shape (the shapes and dtypes of inputs and targets), the first steps run without a graph, and the
 * next step records it. After {@link NnModule#train()}, {@link NnModule#eval}, the replacement of a layer, or freezing
 * or unfreezing a parameter, steps count as those of another shape. All of these steps train the model. If the kernels
 * are deterministic, the parameters after any number of steps equal those of a loop without graphs bit for bit; with
 * {@link #fuse} up to rounding. Gradient clipping, loss scaling and the optimizer run outside the graph: the host
 * enqueues them while the GPU still runs the graph. On the CPU every step runs without a graph.
 *
 * <p>With {@link DistributedDataParallel} gradients are averaged over ranks. If its strategy
 * {@linkplain cs336.distributed.training.Strategy#overlaps overlaps} and the step is {@linkplain #fuse fused}, the
 * passes are several graphs. Each ends where the gradients of a bucket are complete. The collective of this bucket runs
 * at the same time as the following graphs. Otherwise collectives run after the passes. {@link #collectivesInGraph}
 * records them in the graph. {@link #accumulate} replaces {@link DistributedDataParallel#noSync}.
 *
 * <p>A {@link TransformerLM}'s {@linkplain cs336.basics.TransformerConfig#checkpointing policy} determines which
 * activations a step keeps, with and without a recording; the recording contains the recomputation.
 *
 * <p>Except for {@link #clip}, settings are made before the first batch; later calls throw
 * {@link IllegalStateException}.
 *
 * <p>During {@link #run} and {@link #accumulate} TF32 is allowed or forbidden for the whole process, as the precision
 * says. A recorded step holds its activations and gradients until {@link #close()}. Each step calls {@code zeroGrad()}
 * before it computes new gradients. It may or may not compute gradients of parameters that are not in the optimizer.
 */
public final class CompiledStep implements AutoCloseable {
    static final int WARMUP = 2;

    private final NnModule module;
    private final ModuleState moduleState;
    private final BinaryOperator<Tensor> lossFunction; // of outputs and targets
    private final TransformerLM languageModel; // null if the step has a loss function of the caller
    final DistributedDataParallel ddp; // null on a single rank
    final Optimizer optimizer;
    private final Precision precision;
    final Device device;
    private final GradScaler scaler;
    final List<Tensor> parameters; // those that the optimizer updates
    final List<List<Integer>> buckets; // indices of parameters whose collective overlaps with the passes
    private final GradientSums earlier; // of the batches before the current one
    private List<Boolean> trainableEarlier; // which parameters required a gradient in the last batch
    boolean collectivesInGraph;
    private final AdamWCasts masterWeights; // null unless the optimizer is AdamW
    private final boolean mixesFp64; // whether some parameters are fp64 and others are not
    private final Map<RecordingKey, ShapeGraph> shapes = new HashMap<>();
    private double maxNorm = Double.POSITIVE_INFINITY;
    private int lossRows; // the number of tokens whose logits are computed at a time; 0 for all
    int warmup = WARMUP;
    boolean isFused;
    boolean keepsAttention;
    private boolean hadGradient; // a parameter, after some pass
    private boolean closed;

    /**
     * The properties that a recording depends on: the layout of a batch, the number of the module's
     * {@link ModuleState}, and which parameters require a gradient.
     */
    private record RecordingKey(Layout inputs, Layout targets, int moduleState, List<Boolean> trainable) {}

    private CompiledStep(
            NnModule module,
            BinaryOperator<Tensor> lossFunction,
            TransformerLM languageModel,
            DistributedDataParallel ddp,
            Optimizer optimizer,
            Precision precision) {
        Objects.requireNonNull(optimizer, "optimizer must not be null");
        Objects.requireNonNull(precision, "precision must not be null");
        if (optimizer.parameters().isEmpty()) {
            throw new IllegalArgumentException("optimizer must have at least one parameter");
        }
        module.namedParameters()
                .forEach((name, parameter) -> ShardedParameters.requireUnsharded("parameter " + name, parameter));
        this.module = module;
        moduleState = new ModuleState(module);
        this.lossFunction = lossFunction;
        this.languageModel = languageModel;
        this.ddp = ddp;
        this.optimizer = optimizer;
        this.precision = precision;
        parameters = optimizer.parameters().values().stream()
                .map(parameter -> MemoryScope.keep(new Tensor(parameter))) // the optimizer may be closed first
                .toList();
        device = Device.of(parameters.get(0));
        scaler = precision.scaler(device);
        // Loss scaling must find overflows in the gradients and unscale them in fp32.
        // Gradients are averaged over ranks in fp32, too.
        masterWeights = optimizer instanceof AdamW adamw
                ? new AdamWCasts(adamw, precision != Precision.FP16 && ddp == null)
                : null;
        mixesFp64 = parameters.stream()
                        .map(parameter -> DType.of(parameter) == DType.FLOAT64)
                        .distinct()
                        .count()
                > 1;
        earlier = new GradientSums(parameters);
        buckets = ddp == null ? List.of() : buckets(ddp.overlappingBuckets());
    }

    /** Returns the indices of the parameters of each bucket. */
    private List<List<Integer>> buckets(List<List<Tensor>> ofTensors) {
        Map<Long, Integer> indices = new HashMap<>();
        for (Tensor parameter : parameters) {
            indices.put(parameter.unsafeGetTensorImpl().address(), indices.size());
        }
        return ofTensors.stream()
                .map(bucket -> bucket.stream()
                        .map(tensor -> indices.get(tensor.unsafeGetTensorImpl().address()))
                        .filter(Objects::nonNull)
                        .toList())
                .toList();
    }

    /** The casts that AdamW does in place of a fused step: it stores 16-bit weights, and may read 16-bit gradients. */
    private record AdamWCasts(AdamW optimizer, boolean readsNarrowGradients) implements MasterWeights {
        @Override
        public List<Tensor> copies(List<String> names, DType dtype) {
            boolean areStored = dtype.isReducedFloatingPoint()
                    && optimizer.parameters().keySet().containsAll(names);
            return areStored ? optimizer.copies(names, dtype).orElse(null) : null;
        }
    }

    /**
     * Returns the training step of a language model with cross-entropy loss.
     *
     * @param optimizer updates the model's parameters; the caller closes it
     * @param precision the number formats of the forward pass and the loss; fp16 uses loss scaling
     * @throws IllegalArgumentException if the model's parameters are sharded, or the optimizer has none
     */
    public static CompiledStep of(TransformerLM model, Optimizer optimizer, Precision precision) {
        Objects.requireNonNull(model, "model must not be null");
        return new CompiledStep(model, Losses::crossEntropy, model, null, optimizer, precision);
    }

    /**
     * Returns the training step of any module.
     *
     * <pre>{@code
     * CompiledStep.of(mlp, (outputs, targets) -> outputs.sub(targets).square().mean(), optimizer, Precision.FP32)
     * }</pre>
     *
     * <p>Module and loss must not depend on anything that changes except inputs, targets, the elements of other
     * tensors, and the {@linkplain NnModule#isTraining training mode}. On a GPU dropout needs {@link #fuse}; other
     * random operators cannot be recorded.
     *
     * @param loss computes the loss, a 0-dimensional tensor, from the module's output and the targets
     * @param optimizer updates the module's parameters; the caller closes it
     * @param precision the number formats of the forward pass and the loss; fp16 uses loss scaling
     * @throws IllegalArgumentException if the module's parameters are sharded, or the optimizer has none
     */
    public static CompiledStep of(
            NnModule module, BinaryOperator<Tensor> loss, Optimizer optimizer, Precision precision) {
        Objects.requireNonNull(module, "module must not be null");
        Objects.requireNonNull(loss, "loss must not be null");
        return new CompiledStep(module, loss, null, null, optimizer, precision);
    }

    /**
     * Returns the step of a language model whose gradients are averaged over ranks. All ranks call {@link #run} equally
     * often; they may use different input shapes.
     *
     * @param ddp the container of a {@link TransformerLM}; the caller closes it after the step. Its backward hooks are
     *     not used.
     * @param optimizer updates the model's parameters; the caller closes it
     * @param precision the number formats of the forward pass and the loss; fp16 uses loss scaling
     * @throws IllegalArgumentException if the container has another module, which needs a loss function
     */
    public static CompiledStep of(DistributedDataParallel ddp, Optimizer optimizer, Precision precision) {
        Objects.requireNonNull(ddp, "ddp must not be null");
        if (!(ddp.module() instanceof TransformerLM model)) {
            throw new IllegalArgumentException("ddp must contain a TransformerLM, not a "
                    + ddp.module().getClass().getSimpleName());
        }
        return new CompiledStep(model, Losses::crossEntropy, model, ddp, optimizer, precision);
    }

    /**
     * Returns the step of any module whose gradients are averaged over ranks, as {@link #of(NnModule, BinaryOperator,
     * Optimizer, Precision)} and {@link #of(DistributedDataParallel, Optimizer, Precision)} describe.
     */
    public static CompiledStep of(
            DistributedDataParallel ddp, BinaryOperator<Tensor> loss, Optimizer optimizer, Precision precision) {
        Objects.requireNonNull(ddp, "ddp must not be null");
        Objects.requireNonNull(loss, "loss must not be null");
        return new CompiledStep(ddp.module(), loss, null, ddp, optimizer, precision);
    }

    /**
     * Records the collectives that average gradients in the same CUDA graph as the passes. Needs NCCL, and a gradient
     * of every trainable parameter. A replayed collective has no timeout; see {@link ProcessGroup#recordInGraph}.
     * Default: the host starts collectives between the graphs or after the passes.
     *
     * @throws IllegalStateException if the step has no {@link DistributedDataParallel}, or its group does not use NCCL
     */
    public CompiledStep collectivesInGraph() {
        requireNoPass("collectivesInGraph");
        if (ddp == null || ddp.group().backend() != CollectiveBackend.NCCL) {
            throw new IllegalStateException("collectivesInGraph() needs a DistributedDataParallel with NCCL");
        }
        collectivesInGraph = true;
        return this;
    }

    /**
     * Clips the gradients to this global L2 norm. Default: no clipping.
     *
     * @throws IllegalArgumentException if the norm is not positive
     */
    public CompiledStep clip(double maxNorm) {
        if (!(maxNorm > 0)) {
            throw new IllegalArgumentException("maxNorm must be positive, not " + maxNorm);
        }
        this.maxNorm = maxNorm;
        return this;
    }

    /**
     * Sets the number of steps without a graph for each input shape before its graph is recorded, at least 1. Default:
     * {@value #WARMUP}.
     */
    public CompiledStep warmup(int steps) {
        requireNoPass("warmup");
        warmup = ArgumentCheck.atLeast("warmup", 1, steps);
        return this;
    }

    /**
     * Computes the logits of this many tokens at a time, at least 1, instead of storing all; see
     * {@link TransformerLM#loss}. Default: all logits are stored.
     *
     * @throws IllegalStateException if the step has a loss function of the caller
     */
    public CompiledStep lossRows(int tokens) {
        requireNoPass("lossRows");
        if (languageModel == null) {
            throw new IllegalStateException("lossRows() needs the cross-entropy loss of a TransformerLM");
        }
        lossRows = ArgumentCheck.atLeast("lossRows", 1, tokens);
        return this;
    }

    /**
     * Fuses pointwise operations and reductions of both passes into generated kernels on a GPU; on the CPU, runs the
     * recorded operators. Default: PyTorch's operators, without fusion.
     *
     * <p>Plain attention becomes FlashAttention, bitwise reproducible and without stored scores, if the GPU has a
     * kernel for its dtype and head dimension. Kernels of the package {@code cs336.kernels.gemm} compute some matrix
     * multiplications instead of cuBLAS; for the accuracy of those in fp32, see {@link Fp32Gemm}. Results change by
     * rounding only, unless they are infinite.
     *
     * <p>With {@link AdamW} in bf16 or fp16 on a GPU, the optimizer stores 16-bit copies of the weights for the forward
     * pass. In bf16 without {@link DistributedDataParallel}, {@code grad()} of a weight is bf16 after a step. With
     * AdamW in any precision but fp16, {@link #clip} scales what the optimizer reads, but not {@code grad()}. If only
     * some parameters are fp64, it scales {@code grad()}.
     *
     * <p>On a GPU the generated kernels do not detect a target outside of the vocabulary. As in PyTorch, tokens with
     * the target −100 are left out of the mean. Tokens with another such target count with a loss of 0. PyTorch's
     * operators report these targets by a device assertion. They run in the first step of each input shape, and with
     * {@link #lossRows} in every step. With {@link #lossRows} they also report −100.
     *
     * <p>Dropout draws other numbers than PyTorch after the same seed. Its mask is not stored, but recomputed in the
     * backward pass.
     */
    public CompiledStep fuse() {
        requireNoPass("fuse");
        isFused = true;
        keepsAttention = false;
        return this;
    }

    /** Fuses like {@link #fuse}, but plain attention still stores its scores. */
    public CompiledStep fuseKeepingAttention() {
        requireNoPass("fuseKeepingAttention");
        isFused = true;
        keepsAttention = true;
        return this;
    }

    private void requireNoPass(String setting) {
        if (!shapes.isEmpty()) {
            throw new IllegalStateException(setting + "() must be called before the first batch");
        }
    }

    /**
     * Returns the recorded and the fused program and the sources of the generated kernels, for each input shape so far.
     * Empty without fusion.
     */
    public String explain() {
        return shapes.values().stream().map(ShapeGraph::explain).collect(Collectors.joining());
    }

    /** Returns the number of stages after each of which collectives may start, summed over the input shapes so far. */
    int stages() {
        return shapes.values().stream().mapToInt(ShapeGraph::stages).sum();
    }

    /**
     * Trains on one batch without waiting for the GPU.
     *
     * @param inputs on the device of the parameters; for a {@link TransformerLM} int64 token ids, [B, T]. The module
     *     receives a contiguous copy
     * @param targets on the same device; for a {@link TransformerLM} int64 token ids, [B, T]
     * @return the loss before the update, a 0-dimensional fp32 tensor; by default the mean cross-entropy in nats. The
     *     next step with this input shape overwrites it, and {@link #close} closes it. The caller may close it, too
     * @throws IllegalArgumentException if a shape, dtype or device is not as described above
     * @throws IllegalArgumentException if an id on the CPU is outside of the vocabulary
     * @throws IllegalArgumentException if the loss function does not return a 0-dimensional tensor, or the loss depends
     *     on no parameter that requires a gradient
     * @throws IllegalStateException if the step or a layer of the module is closed
     * @throws IllegalStateException if the step cannot be recorded; the message says why
     * @throws IllegalStateException if parameters were added to the optimizer after the step was created
     * @throws IllegalStateException if the loss depends on no parameter of the optimizer, as with that of another
     *     module
     * @throws IllegalStateException if other parameters require a gradient than in the {@linkplain #accumulate
     *     accumulated} batches
     */
    public Tensor run(Tensor inputs, Tensor targets) {
        try (var tf32 = Torch.tf32(precision.tf32())) {
            ShapeGraph ofShape = prepare(inputs, targets);
            ofShape.forwardBackward(new Averaging());
            try {
                requireGradient();
                update();
            } finally {
                earlier.clear(); // the sums are means by now, to which no gradient can be added
            }
            return ofShape.loss();
        }
    }

    /**
     * Computes the gradients of one batch for the next {@link #run} without updating parameters, and without
     * communication. That call then trains on the mean of the gradients of all these batches and its own. If they have
     * equally many tokens, this is the gradient of the mean over all tokens. If that call throws before its update, the
     * gradients are kept for the next one. If the optimizer throws, they are lost.
     *
     * @param inputs as in {@link #run}
     * @param targets as in {@link #run}
     * @return the loss of this batch, as in {@link #run}
     * @throws IllegalArgumentException as in {@link #run}
     * @throws IllegalStateException as in {@link #run}
     * @throws IllegalStateException if collectives are in the graph of the step
     */
    public Tensor accumulate(Tensor inputs, Tensor targets) {
        if (collectivesInGraph) {
            throw new IllegalStateException("accumulate() cannot be used with collectivesInGraph()");
        }
        try (var tf32 = Torch.tf32(precision.tf32())) {
            ShapeGraph ofShape = prepare(inputs, targets);
            ofShape.forwardBackward(earlier::add);
            earlier.endBatch();
            return ofShape.loss();
        }
    }

    /** Copies a batch to the static inputs of its shape, and removes the gradients of the last call. */
    private ShapeGraph prepare(Tensor inputs, Tensor targets) {
        if (closed) {
            throw new IllegalStateException("the step is closed");
        }
        if (optimizer.parameters().size() != parameters.size()) {
            throw new IllegalStateException(
                    "parameters were added to the optimizer after this step was created; create a new step");
        }
        int state = moduleState.number();
        requireUsable("inputs", inputs);
        requireUsable("targets", targets);
        var key = new RecordingKey(
                Layout.contiguous(DType.of(inputs), Tensors.shape(inputs)),
                Layout.contiguous(DType.of(targets), Tensors.shape(targets)),
                state,
                parameters.stream().map(Tensor::requires_grad).toList());
        if (languageModel != null && !key.inputs.equals(key.targets)) {
            throw new IllegalArgumentException("targets must have the shape of inputs, "
                    + Arrays.toString(key.inputs.shape()) + ", not " + Arrays.toString(key.targets.shape()));
        }
        if (earlier.batches() > 0 && !key.trainable().equals(trainableEarlier)) {
            throw new IllegalStateException(
                    "the parameters that require a gradient must not change between accumulate() and run()");
        }
        trainableEarlier = key.trainable();
        ShapeGraph ofShape = shapes.computeIfAbsent(key, k -> new ShapeGraph(this, k.inputs, k.targets));
        if (optimizer instanceof ShardedOptimizer<?> sharded) {
            sharded.awaitParameters(); // a recorded forward pass does not wait for each layer
        }
        ofShape.load(inputs, targets);
        optimizer.zeroGrad(); // removes the gradients of another shape's graph and of the last step
        if (masterWeights != null) {
            masterWeights.optimizer.refreshCopies();
        }
        return ofShape;
    }

    /** Returns the casts that the optimizer does in place of a fused step. */
    MasterWeights masterWeights() {
        return masterWeights == null ? MasterWeights.NONE : masterWeights;
    }

    /** Runs both passes operator by operator, and returns the loss, in the caller's memory scope. */
    Tensor runPasses(Tensor inputs, Tensor targets) {
        try (var scope = MemoryScope.open();
                var local = withoutHooks()) {
            Tensor loss = loss(inputs, targets);
            try (var range = ProfilerRange.of("backward");
                    var fp32 = Autocast.of(device, DType.FLOAT32)) {
                Backward.of(scaler.scale(loss)).run();
            }
            return scope.escape(loss);
        }
    }

    /**
     * Returns the loss, and the gradient of the scaled loss for each parameter; null for a frozen one.
     *
     * @param batch inputs and targets
     */
    Tensor[] lossAndGradients(Tensor... batch) {
        try (var scope = MemoryScope.open()) {
            Tensor loss = loss(batch[0], batch[1]);
            try (var fp32 = Autocast.of(device, DType.FLOAT32)) { // the caller may have opened another one
                Tensor[] gradients =
                        Backward.of(scaler.scale(loss)).gradientsWhereRequired(parameters.toArray(new Tensor[0]));
                // Clipping and loss scaling write to gradients, and the gradient of a sum is one element, expanded.
                Arrays.setAll(gradients, i -> writable(gradients[i]));
                return scope.escapeAll(Stream.concat(Stream.of(loss.detach()), Arrays.stream(gradients))
                        .toArray(Tensor[]::new));
            }
        }
    }

    /**
     * Returns a gradient that shares no memory between its elements, as {@code backward()} stores it; null for null.
     */
    private static Tensor writable(Tensor gradient) {
        return gradient == null || gradient.is_non_overlapping_and_dense() ? gradient : gradient.contiguous();
    }

    private Tensor loss(Tensor inputs, Tensor targets) {
        try (var range = ProfilerRange.of("forward");
                var autocast = precision.autocast(device)) {
            if (lossRows > 0) {
                return languageModel.loss(inputs, targets, lossRows);
            }
            Tensor loss = lossFunction.apply(module.forward(inputs), targets);
            Tensors.requireDefined("loss", loss);
            if (loss.dim() != 0) {
                throw new IllegalArgumentException("loss must return a 0-dimensional tensor, not one of the shape "
                        + Arrays.toString(Tensors.shape(loss)));
            }
            return loss;
        }
    }

    /** Opens a scope in which backward passes start no collectives; null without ranks. */
    NoSync withoutHooks() {
        return ddp == null ? null : ddp.noSync();
    }

    private void requireUsable(String name, Tensor tensor) {
        Tensors.requireDefined(name, tensor);
        if (languageModel != null && (tensor.dim() != 2 || DType.of(tensor) != DType.INT64)) {
            throw new IllegalArgumentException(name + " must be an int64 tensor of shape [B, T]");
        }
        if (!Device.of(tensor).equals(device)) {
            throw new IllegalArgumentException(name + " must be on the model's device, " + device);
        }
        if (languageModel != null) {
            Losses.requireTokens(name, tensor, languageModel.config().vocabSize());
        }
    }

    /** Checks that an update would have an effect, until one of the parameters has had a gradient. */
    private void requireGradient() {
        if (!hadGradient) {
            try (var scope = MemoryScope.open()) {
                hadGradient = parameters.stream()
                        .anyMatch(parameter -> parameter.grad().defined());
            }
        }
        if (!hadGradient) {
            throw new IllegalStateException(
                    "no parameter of the optimizer has a gradient: the loss must depend on one");
        }
    }

    private void update() {
        try (var scope = MemoryScope.open()) {
            boolean clips = maxNorm < Double.POSITIVE_INFINITY;
            if (clips && isFused && masterWeights != null && precision != Precision.FP16 && !mixesFp64) {
                Tensor norm = GradientClipping.norm(parameters);
                masterWeights.optimizer.step(GradientClipping.factor(norm, maxNorm));
                return;
            }
            scaler.unscale(optimizer);
            try {
                if (clips && optimizer instanceof ShardedOptimizer<?> sharded) {
                    sharded.clipGradients(maxNorm);
                } else if (clips) {
                    GradientClipping.clipByGlobalNorm(parameters, maxNorm);
                }
                scaler.step(optimizer);
            } finally {
                scaler.update(); // also after an exception: the next step unscales other gradients
            }
        }
    }

    /**
     * Returns the state of the loss scaling, see {@link GradScaler#state}; empty unless the precision is fp16. A
     * checkpoint must contain it, so that a resumed run has the same scale.
     */
    public Map<String, Tensor> scalerState() {
        return scaler.state();
    }

    /**
     * Checks the state of the loss scaling after a checkpoint was loaded.
     *
     * @param file the checkpoint, for error messages
     * @throws IllegalArgumentException if {@link GradScaler#requireValid} rejects it
     */
    public void requireValidScale(Path file) {
        try {
            scaler.requireValid();
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(file + ": " + e.getMessage(), e);
        }
    }

    /** Waits for the GPU and frees the graphs, their tensors and the gradients. */
    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        parameters.forEach(parameter -> parameter.mutable_grad().reset());
        earlier.clear();
        shapes.values().forEach(ShapeGraph::close);
        scaler.close();
        parameters.forEach(Tensor::close);
    }

    /** Adds the gradients of earlier batches, and averages the sum over batches and ranks. */
    private final class Averaging implements GradientConsumer {
        @Override
        public void ready(List<Integer> indices) {
            if (earlier.batches() > 0) {
                earlier.average(indices);
            }
            if (ddp != null) {
                ddp.gradientsReady(indices.stream().map(parameters::get).toList());
            }
        }

        @Override
        public void finish() {
            if (ddp != null) {
                ddp.finishGradientSynchronization();
            }
        }
    }
}
