package cs336.compile;

import cs336.basics.AdamW;
import cs336.basics.GradScaler;
import cs336.basics.GradientClipping;
import cs336.basics.Losses;
import cs336.basics.Optimizer;
import cs336.basics.TransformerLM;
import cs336.bench.ArgumentCheck;
import cs336.bench.Precision;
import cs336.compile.fuse.MasterWeights;
import cs336.compile.program.Program;
import cs336.torch.Backward;
import cs336.torch.CudaGraph;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.ProfilerRange;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

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
 * <p>For each input shape, the first steps run without a graph, and the next step records it. All of these steps train
 * the model. If the kernels are deterministic, the parameters after any number of steps equal those of a loop without
 * graphs bit for bit; with {@link #fuse} up to rounding. Gradient clipping, loss scaling and the optimizer run outside
 * the graph: the host queues them while the GPU still runs the graph. On the CPU every step runs without a graph.
 *
 * <p>The model's {@linkplain cs336.basics.TransformerConfig#checkpointing policy} states which activations a step
 * keeps, recorded or not; the recording contains the recomputation.
 *
 * <p>A recorded step holds its activations and gradients until {@link #close()}. Each step calls {@code zeroGrad()}
 * before it computes new gradients.
 */
public final class CompiledStep implements AutoCloseable {
    private static final int WARMUP = 3;

    private final TransformerLM model;
    private final Optimizer optimizer;
    private final Precision precision;
    private final Device device;
    private final GradScaler scaler;
    private final List<Tensor> parameters;
    private final AdamWCasts masterWeights; // null unless the optimizer is AdamW
    private final Map<RecordingKey, ShapeGraph> shapes = new HashMap<>();
    private double maxNorm = Double.POSITIVE_INFINITY;
    private int warmup = WARMUP;
    private FusionExtent extent = FusionExtent.NONE;
    private int lossRows; // 0 for all
    private boolean closed;

    /**
     * The properties of a call that a recorded step depends on: the shape of the inputs, and which parameters require a
     * gradient.
     */
    private record RecordingKey(List<Long> shape, List<Boolean> trainable) {}

    private CompiledStep(TransformerLM model, Optimizer optimizer, Precision precision) {
        this.model = model;
        this.optimizer = optimizer;
        this.precision = precision;
        device = model.device();
        scaler = precision.scaler(device);
        parameters = List.copyOf(optimizer.parameters().values());
        // Loss scaling must find overflows in the gradients and unscale them in fp32.
        masterWeights = optimizer instanceof AdamW adamw ? new AdamWCasts(adamw, precision != Precision.FP16) : null;
    }

    /** Lets AdamW store the 16-bit weights of the forward pass and read 16-bit gradients. */
    private record AdamWCasts(AdamW optimizer, boolean readsNarrowGradients) implements MasterWeights {
        @Override
        public Tensor copy(String name, DType dtype) {
            boolean isStored = dtype == DType.BFLOAT16 || dtype == DType.FLOAT16;
            return isStored && optimizer.parameters().containsKey(name) ? optimizer.copy(name, dtype) : null;
        }
    }

    /**
     * Returns the training step of a language model with cross-entropy loss.
     *
     * @param optimizer updates the model's parameters; the caller closes it
     * @param precision the number formats of the forward pass and the loss; fp16 uses loss scaling
     */
    public static CompiledStep of(TransformerLM model, Optimizer optimizer, Precision precision) {
        return new CompiledStep(model, optimizer, precision);
    }

    /** Clips the gradients to this global L2 norm, which must be positive. Default: no clipping. */
    public CompiledStep clip(double maxNorm) {
        if (!(maxNorm > 0)) {
            throw new IllegalArgumentException("maxNorm must be positive, not " + maxNorm);
        }
        this.maxNorm = maxNorm;
        return this;
    }

    /**
     * Sets the number of steps without a graph for each input shape before its graph is recorded, at least 1. Default:
     * 3.
     */
    public CompiledStep warmup(int steps) {
        warmup = ArgumentCheck.atLeast("warmup", 1, steps);
        return this;
    }

    /**
     * Computes the loss without storing all logits, at least 1 token at a time; see {@link TransformerLM#loss}.
     * Default: all logits are stored.
     */
    public CompiledStep lossRows(int tokens) {
        lossRows = ArgumentCheck.atLeast("lossRows", 1, tokens);
        return this;
    }

    /**
     * Fuses pointwise operations and reductions of both passes into generated kernels on a GPU; on the CPU, runs the
     * recorded operators. Default: neither.
     *
     * <p>Plain attention becomes FlashAttention, bitwise reproducible and without stored scores, if the GPU has a
     * kernel for its dtype and head dimension. Results change by rounding only.
     *
     * <p>With {@link AdamW} in bf16 on a GPU, the optimizer stores bf16 copies of the weights for the forward pass, and
     * after a step {@code grad()} of a weight is bf16. Clipping then changes what the optimizer reads, but not
     * {@code grad()}.
     */
    public CompiledStep fuse() {
        extent = FusionExtent.ALL;
        return this;
    }

    /** Does the same as {@link #fuse}, but leaves plain attention as it is, so that it stores its scores. */
    public CompiledStep fuseKeepingAttention() {
        extent = FusionExtent.KEEP_ATTENTION;
        return this;
    }

    /**
     * Returns what {@link #fuse} made of the passes, for each input shape so far: the recorded and the fused program,
     * and the sources of the kernels. Empty without fusion.
     */
    public String explain() {
        var text = new StringBuilder();
        shapes.values().stream()
                .filter(ofShape -> ofShape.program != null)
                .forEach(ofShape -> text.append(ofShape.program.explain()));
        return text.toString();
    }

    /**
     * Trains on one batch without waiting for the GPU.
     *
     * @param inputs int64 token ids, [B, T], on the model's device
     * @param targets int64 token ids, [B, T], on the model's device
     * @return the mean cross-entropy before the update in nats, a 0-dimensional fp32 tensor. The next step with this
     *     input shape overwrites it.
     * @throws IllegalArgumentException if a shape, dtype or device is not as described above
     * @throws IllegalStateException if the step is closed, or cannot be recorded; the message says why
     */
    public Tensor run(Tensor inputs, Tensor targets) {
        if (closed) {
            throw new IllegalStateException("the step is closed");
        }
        requireIds("inputs", inputs);
        requireIds("targets", targets);
        var key = new RecordingKey(
                Arrays.stream(Tensors.shape(inputs)).boxed().toList(),
                parameters.stream().map(Tensor::requires_grad).toList());
        if (!Arrays.equals(Tensors.shape(inputs), Tensors.shape(targets))) {
            throw new IllegalArgumentException("targets must have the shape of inputs, " + key.shape() + ", not "
                    + Arrays.toString(Tensors.shape(targets)));
        }
        Torch.allowTf32(precision.tf32());
        ShapeGraph ofShape = shapes.computeIfAbsent(key, k -> new ShapeGraph(inputs));
        try (var noGrad = NoGrad.open()) {
            ofShape.inputs.copy_(inputs);
            ofShape.targets.copy_(targets);
        }
        optimizer.zeroGrad(); // removes the gradients of another shape's graph and of the last step
        if (masterWeights != null) {
            masterWeights.optimizer.refreshCopies();
        }
        ofShape.forwardBackward();
        update();
        return ofShape.loss;
    }

    private void requireIds(String name, Tensor ids) {
        if (ids == null || ids.isNull() || !ids.defined() || ids.dim() != 2 || DType.of(ids) != DType.INT64) {
            throw new IllegalArgumentException(name + " must be an int64 tensor of shape [B, T]");
        }
        if (ids.is_cuda() != device.isCuda()) {
            throw new IllegalArgumentException(name + " must be on the model's device, " + device);
        }
    }

    /** Returns the loss and the gradient of each parameter, of the scaled loss; null for a frozen parameter. */
    private Tensor[] lossAndGradients(Tensor... batch) {
        try (var scope = MemoryScope.open()) {
            Tensor value = loss(batch[0], batch[1]);
            Tensor[] trainable =
                    parameters.stream().filter(Tensor::requires_grad).toArray(Tensor[]::new);
            Tensor[] gradients = Backward.of(scaler.scale(value)).gradients(trainable);
            Tensor[] results = new Tensor[1 + parameters.size()];
            results[0] = scope.escape(value.detach());
            int next = 0;
            for (int i = 0; i < parameters.size(); i++) {
                Tensor gradient = parameters.get(i).requires_grad() ? gradients[next++] : null;
                results[i + 1] = gradient == null ? null : scope.escape(gradient);
            }
            return results;
        }
    }

    private Tensor loss(Tensor inputs, Tensor targets) {
        try (var range = ProfilerRange.of("forward");
                var autocast = precision.autocast(device)) {
            return lossRows == 0
                    ? Losses.crossEntropy(model.forward(inputs), targets)
                    : model.loss(inputs, targets, lossRows);
        }
    }

    private void update() {
        try (var scope = MemoryScope.open()) {
            boolean clips = maxNorm < Double.POSITIVE_INFINITY;
            if (clips && extent != FusionExtent.NONE && masterWeights != null && masterWeights.readsNarrowGradients) {
                Tensor norm = GradientClipping.norm(parameters);
                masterWeights.optimizer.step(GradientClipping.factor(norm, maxNorm));
                return;
            }
            if (clips) {
                scaler.unscale(optimizer);
                GradientClipping.clipByGlobalNorm(parameters, maxNorm);
            }
            scaler.step(optimizer);
            scaler.update();
        }
    }

    /**
     * Returns the state of the loss scaling, see {@link GradScaler#state}; empty unless the precision is fp16. A
     * checkpoint must contain it, so that a resumed run has the same scale.
     */
    public Map<String, Tensor> scalerState() {
        return scaler.state();
    }

    /** Waits for the GPU and frees the graphs, their tensors and the gradients. */
    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        optimizer.zeroGrad();
        shapes.values().forEach(ShapeGraph::close);
        scaler.close();
    }

    /** The static inputs and outputs of one input shape, and its graph once it is recorded. */
    private final class ShapeGraph implements AutoCloseable {
        private final Tensor inputs;
        private final Tensor targets;
        private final Tensor loss;
        private final CudaGraph graph = device.isCuda() ? CudaGraph.on(device) : null;
        private CompiledProgram program; // with fusion, after the first step
        private List<Tensor> gradients; // those that the graph writes, one per parameter; null before it is recorded
        private int steps;

        ShapeGraph(Tensor like) {
            try (var scope = MemoryScope.open()) {
                inputs = MemoryScope.keep(torch.zeros_like(like));
                targets = MemoryScope.keep(torch.zeros_like(like));
                loss = MemoryScope.keep(torch.zeros(new long[0], device.options(DType.FLOAT32)));
            }
        }

        void forwardBackward() {
            if (graph == null) {
                computeGradients();
                return;
            }
            if (steps++ < warmup) {
                graph.warmUp(this::computeGradients);
                return;
            }
            if (gradients == null) {
                record();
            }
            graph.replay();
            attach(gradients); // those that this graph writes
        }

        private void computeGradients() {
            if (extent != FusionExtent.NONE) {
                computeFused();
                return;
            }
            try (var scope = MemoryScope.open()) {
                Tensor value = loss(inputs, targets);
                try (var noGrad = NoGrad.open()) {
                    loss.copy_(value);
                }
                try (var range = ProfilerRange.of("backward")) {
                    scaler.scale(value).backward();
                }
            }
        }

        /** Runs the fused program and makes its outputs the gradients; the first call records it. */
        private void computeFused() {
            try (var scope = MemoryScope.open()) {
                Tensor[] results;
                if (program == null) {
                    var ofFirstRun = new AtomicReference<Tensor[]>();
                    program = CompiledProgram.record(
                            CompiledStep.this::lossAndGradients,
                            device,
                            extent,
                            optimizer.parameters(),
                            masterWeights == null ? MasterWeights.NONE : masterWeights,
                            ofFirstRun,
                            inputs,
                            targets);
                    results = ofFirstRun.get();
                } else {
                    results = program.run(inputs, targets);
                }
                try (var noGrad = NoGrad.open()) {
                    loss.copy_(results[0]);
                }
                attach(Arrays.asList(results).subList(1, results.length));
            }
        }

        private void record() {
            graph.record(this::computeGradients);
            var recorded = new ArrayList<Tensor>();
            for (Tensor parameter : parameters) {
                Tensor gradient = parameter.mutable_grad();
                recorded.add(gradient.defined() ? MemoryScope.keep(new Tensor(gradient)) : null);
            }
            gradients = recorded;
        }

        /** Sets the gradients of the parameters, in their order; null leaves one undefined. */
        private void attach(List<Tensor> values) {
            try (var scope = MemoryScope.open()) {
                for (int i = 0; i < values.size(); i++) {
                    if (values.get(i) != null) {
                        parameters.get(i).mutable_grad().put(values.get(i));
                    }
                }
            }
        }

        @Override
        public void close() {
            if (graph != null) {
                graph.close();
            }
            if (program != null) {
                program.close();
            }
            if (gradients != null) {
                gradients.stream().filter(g -> g != null).forEach(Tensor::close);
            }
            List.of(inputs, targets, loss).forEach(Tensor::close);
        }
    }
}
