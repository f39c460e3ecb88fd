package cs336.scaling;

import cs336.basics.ModelEdition;
import cs336.basics.TransformerConfig;
import cs336.bench.ArgumentCheck;
import cs336.bench.Pass;
import cs336.checkpointing.BlockBytes;
import cs336.checkpointing.CheckpointPlan;
import cs336.checkpointing.LiveActivations;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/**
 * The predicted memory of a {@link cs336.basics.TransformerLM} in training, tensor by tensor: parameters, gradients,
 * AdamW's moments, the tensors that each layer saves for its backward pass, and the temporary tensors at the points in
 * the step where memory may peak. Only models with RMSNorm and plain attention are supported.
 *
 * <p>Parameters, gradients and moments are fp32. Under autocast, matmuls have inputs and outputs of the narrow type;
 * {@link #keptByBlock} lists the types of all saved tensors. A tensor counts as alive while Java refers to it: a module
 * holds its intermediate results until it returns, and the logits live until the end of the backward pass.
 *
 * <p>{@link TransformerConfig#checkpointing} states which activations are kept. A recomputed function holds its output
 * and the gradient of its output until its backward pass has ended.
 *
 * <p>Letters of the shapes: B sequences of T tokens, N = BT tokens; D, F and V are the widths of the residual stream,
 * the feed-forward layer and the vocabulary; H is the number of heads and P the number of parameters.
 *
 * @param config the model; {@code config.contextLength()} is T
 * @param batch B
 * @param autocast type of the matmuls: fp32 without autocast, else bf16 or fp16
 * @param on kind of device. Under autocast the softmax is fp32 on CUDA and narrow on the CPU. On CUDA the backward pass
 *     of the softmax needs one more tensor, and cuBLAS has workspaces.
 */
public record ModelMemory(TransformerConfig config, int batch, DType autocast, DeviceKind on) {
    /**
     * The workspace in bytes that cuBLAS takes from PyTorch's allocator for each thread that calls it: PyTorch's
     * default on Hopper. On older GPUs it is 8.125 MiB.
     */
    public static final long CUBLAS_WORKSPACE = 32L << 20;

    private static final DType WIDE = DType.FLOAT32;

    /**
     * @throws IllegalArgumentException if the model does not use RMSNorm and plain attention, the batch is below 1, or
     *     the autocast type is wider than fp32
     */
    public ModelMemory {
        ArgumentCheck.atLeast("batch", 1, batch);
        if (!config.normalization().equals("rmsnorm") || !config.attention().equals("plain")) {
            throw new IllegalArgumentException("only the memory of rmsnorm and plain attention is predicted, not of "
                    + config.normalization() + " and " + config.attention());
        }
        if (autocast.bytes() > WIDE.bytes()) {
            throw new IllegalArgumentException("autocast must be fp32, bf16 or fp16, not " + autocast);
        }
    }

    /** Returns the inventory at the peak of a pass, from its second run on, when AdamW's moments exist. */
    public MemoryInventory peak(Pass pass) {
        return candidates(pass).stream()
                .max(Comparator.comparingLong(MemoryInventory::bytes))
                .orElseThrow();
    }

    /** Returns the inventories at the points of a pass where memory may peak, in order of time. */
    public List<MemoryInventory> candidates(Pass pass) {
        return switch (pass) {
            case FORWARD ->
                List.of(
                        MemoryInventory.of(
                                "softmax of the last block",
                                always(1),
                                embedded(),
                                weightCastsInAttention(withoutGraph()),
                                softmaxOfForward(false)),
                        MemoryInventory.of(
                                "matmul with V of the last block",
                                always(1),
                                embedded(),
                                weightCastsInAttention(withoutGraph()),
                                matmulWithValues()),
                        MemoryInventory.of(
                                "end of the last block",
                                always(1),
                                embedded(),
                                weightCasts(config.numLayers()),
                                endOfFeedForward()),
                        MemoryInventory.of(
                                "logits",
                                always(1),
                                embedded(),
                                weightCasts(config.numLayers()),
                                weightCastOfHead(),
                                logitsWithoutGraph()));
            case FORWARD_GRAPH -> forwardWithGraph(always(1));
            case FORWARD_BACKWARD ->
                Stream.of(forwardWithGraph(always(2)), backward(always(2)))
                        .flatMap(List::stream)
                        .toList();
            case STEP -> {
                List<TensorMemory> held = joined(always(2), optimizerState());
                yield Stream.of(
                                forwardWithGraph(held),
                                backward(held),
                                List.of(MemoryInventory.of(
                                        "optimizer", held, List.of(gradients(config.parameterCount())))))
                        .flatMap(List::stream)
                        .toList();
            }
        };
    }

    /**
     * Returns the tensors alive between two passes, except gradients and optimizer state. The thread of the forward
     * pass and that of the backward pass each have a cuBLAS workspace.
     */
    public List<TensorMemory> idle() {
        return always(2);
    }

    /** Returns the tensors that one block saves for its backward pass. */
    public List<TensorMemory> keptByBlock() {
        return joined(keptByAttention(), keptByFeedForward());
    }

    /** Returns the tensors that the whole forward pass saves for the backward pass: blocks, last layers and loss. */
    public List<TensorMemory> kept() {
        LiveActivations live = plan().afterForward();
        var kept = new ArrayList<>(activations(live));
        kept.addAll(weightCasts(live));
        if (is2024()) {
            kept.add(positions());
        }
        kept.addAll(keptByHead());
        return kept;
    }

    /** Returns the memory of one block for a {@link cs336.checkpointing.CheckpointPolicy#budget}. */
    public BlockBytes blockBytes() {
        long input = rows("input", WIDE).bytes();
        long feedForward = MemoryInventory.bytes(keptByFeedForward());
        return new BlockBytes(MemoryInventory.bytes(keptByBlock()), feedForward - input, input);
    }

    /** Returns the size of {@link #kept} in bytes. */
    public long keptBytes() {
        return MemoryInventory.bytes(kept());
    }

    // ---- saved for the backward pass ----

    private List<TensorMemory> keptByAttention() {
        return joined(
                keptUpToSoftmax(),
                probabilitiesCast(),
                List.of(rows("values, per head", autocast), rows("input of output_proj", autocast)));
    }

    private List<TensorMemory> keptUpToSoftmax() {
        var kept = new ArrayList<>(keptByNorm("ln1"));
        kept.addAll(inputs("q_proj, k_proj, v_proj", 3));
        kept.add(rows("queries, scaled, per head", autocast));
        kept.add(rows("keys, per head", autocast));
        kept.add(probabilities());
        return kept;
    }

    private TensorMemory probabilities() {
        return attentionMatrix("probabilities", softmaxType());
    }

    /** Returns the cast of the probabilities if the softmax is fp32 and the matmul with V is narrow. */
    private List<TensorMemory> probabilitiesCast() {
        return softmaxType() == autocast
                ? List.of()
                : List.of(attentionMatrix("probabilities, cast for the matmul with V", autocast));
    }

    private List<TensorMemory> keptByFeedForward() {
        var kept = new ArrayList<>(keptByNorm("ln2"));
        kept.addAll(is2024() ? inputs("w1", 1) : inputs("w1, w3", 2));
        kept.addAll(innerOfFeedForward());
        return kept;
    }

    private List<TensorMemory> innerOfFeedForward() {
        return is2024()
                ? List.of(inner("output of w1"), inner("gelu(w1 x), input of w2"))
                : List.of(
                        inner("output of w1"),
                        inner("silu(w1 x)"),
                        inner("output of w3"),
                        inner("silu(w1 x) w3 x, input of w2"));
    }

    private List<TensorMemory> keptByHead() {
        var kept = new ArrayList<>(keptByNorm("ln_final"));
        kept.addAll(inputs("lm_head", 1));
        kept.addAll(weightCastOfHead());
        kept.add(vocabulary("logits", autocast));
        kept.add(vocabulary("log-probabilities", WIDE));
        return kept;
    }

    private List<TensorMemory> keptByNorm(String layer) {
        return List.of(
                rows("input of " + layer + ": the residual stream", WIDE),
                rows(layer + ": x / rms", WIDE),
                new TensorMemory(layer + ": 1 / rms", "N", WIDE, 1, tokens()));
    }

    /**
     * Returns the saved inputs of linear layers with a common input. In fp32 they share one tensor; under autocast each
     * layer saves its own cast.
     */
    private List<TensorMemory> inputs(String layers, int count) {
        return isNarrow()
                ? List.of(new TensorMemory("inputs of " + layers + ", cast", "N × D", autocast, count, rows()))
                : List.of(rows("input of " + layers, WIDE));
    }

    /**
     * Returns autocast's casts of the weights. They live until the autocast scope ends, and in the graph until the
     * layer's backward pass.
     */
    private List<TensorMemory> weightCasts(int blocks) {
        return isNarrow()
                ? List.of(new TensorMemory(
                        "weights of a block, cast", "4D² + " + matrices() + "DF", autocast, blocks, blockMatrices()))
                : List.of();
    }

    /** Returns {@link #weightCasts} of the blocks that keep activations; those of recomputed layers are freed. */
    private List<TensorMemory> weightCasts(LiveActivations live) {
        if (!isNarrow() || live.blocksWithoutFeedForward() == 0) {
            return live.blocks() == 0 ? List.of() : weightCasts(live.blocks());
        }
        long d = config.dModel();
        return joined(
                live.blocks() == 0 ? List.of() : weightCasts(live.blocks()),
                List.of(new TensorMemory(
                        "weights of an attention layer, cast",
                        "4D²",
                        autocast,
                        live.blocksWithoutFeedForward(),
                        4 * d * d)));
    }

    /** Returns {@link #weightCasts} while the last block computes its attention. */
    private List<TensorMemory> weightCastsInAttention(LiveActivations others) {
        if (!isNarrow()) {
            return List.of();
        }
        long d = config.dModel();
        TensorMemory projections =
                new TensorMemory("weights of q_proj, k_proj, v_proj, cast", "D × D", autocast, 3, d * d);
        return joined(weightCasts(others), List.of(projections));
    }

    private List<TensorMemory> weightCastOfHead() {
        return isNarrow()
                ? List.of(new TensorMemory("weight of lm_head, cast", "V × D", autocast, 1, vocabularyMatrix()))
                : List.of();
    }

    // ---- temporary tensors of the forward pass ----

    /**
     * Returns the embeddings that the model holds until it returns, if they are not counted elsewhere. In the 2025
     * model they are the saved input of the first block.
     */
    private List<TensorMemory> embedded() {
        return is2024()
                ? List.of(
                        rows("embeddings of tokens", WIDE),
                        new TensorMemory(
                                "embeddings of positions", "T × D", WIDE, 1, (long) context() * config.dModel()),
                        positions())
                : List.of();
    }

    private TensorMemory positions() {
        return new TensorMemory("positions", "T", DType.INT64, 1, context());
    }

    /** Returns the tensors of a block during its softmax. */
    private List<TensorMemory> softmaxOfForward(boolean graph) {
        var alive = new ArrayList<TensorMemory>();
        if (graph) {
            alive.addAll(keptUpToSoftmax());
            if (isNarrow()) {
                alive.add(rows("output of ln1", WIDE));
            }
        } else {
            alive.add(rows("input of the block", WIDE));
            alive.add(rows("output of ln1", WIDE));
            alive.add(probabilities());
        }
        alive.addAll(projected());
        alive.add(attentionMatrix("scores", autocast));
        if (softmaxType() != autocast) {
            alive.add(attentionMatrix("scores, cast for the softmax", softmaxType()));
        }
        return alive;
    }

    private List<TensorMemory> matmulWithValues() {
        var alive = new ArrayList<TensorMemory>();
        alive.add(rows("input of the block", WIDE));
        alive.add(rows("output of ln1", WIDE));
        alive.addAll(projected());
        alive.add(probabilities());
        alive.addAll(probabilitiesCast());
        if (batch > 1) {
            alive.add(rows("values, per head", autocast));
        }
        alive.add(rows("output of the attention", autocast));
        return alive;
    }

    /** Returns the projected queries, keys and values and, in the 2025 model, the rotated queries and keys. */
    private List<TensorMemory> projected() {
        var alive = new ArrayList<TensorMemory>();
        alive.add(new TensorMemory("queries, keys, values, as projected", "N × D", autocast, 3, rows()));
        if (!is2024()) {
            if (isNarrow()) {
                alive.add(new TensorMemory("queries, keys in fp32, before rotation", "N × D", WIDE, 2, rows()));
            }
            alive.add(new TensorMemory("queries, keys, rotated", "N × D", WIDE, 2, rows()));
        }
        return alive;
    }

    /** Returns the tensors of a block after its last matmul, without an autograd graph. */
    private List<TensorMemory> endOfFeedForward() {
        return joined(
                List.of(
                        rows("input of the block", WIDE),
                        rows("output of ln1", WIDE),
                        rows("output of the attention", autocast),
                        rows("residual stream after the attention", WIDE),
                        rows("output of ln2", WIDE),
                        rows("output of w2", autocast)),
                innerOfFeedForward());
    }

    private List<TensorMemory> logitsWithoutGraph() {
        var alive = new ArrayList<TensorMemory>();
        alive.add(rows("input of ln_final", WIDE));
        alive.add(rows("output of ln_final", WIDE));
        if (isNarrow()) {
            alive.add(rows("output of ln_final, cast", autocast));
        }
        alive.add(vocabulary("logits", autocast));
        return alive;
    }

    private List<MemoryInventory> forwardWithGraph(List<TensorMemory> held) {
        LiveActivations last = plan().backward().get(0); // the same before its forward pass
        var loss = new ArrayList<>(kept());
        if (isNarrow()) {
            loss.add(vocabulary("logits in fp32", WIDE));
        }
        var points = new ArrayList<MemoryInventory>();
        for (LiveActivations others : plan().backward()) { // other blocks keep the same in the forward pass
            points.add(0, MemoryInventory.of("end of " + named("block", others), held, embedded(), endOfBlock(others)));
        }
        points.add(MemoryInventory.of(
                "softmax of the last block",
                held,
                embedded(),
                activations(last),
                weightCastsInAttention(last),
                softmaxOfForward(true)));
        points.add(MemoryInventory.of("loss", held, loss));
        return points;
    }

    /** Returns the tensors alive after the last operation of a block that keeps its activations until then. */
    private List<TensorMemory> endOfBlock(LiveActivations others) {
        return joined(
                activations(others),
                weightCasts(others),
                weightCasts(1),
                keptByBlock(),
                List.of(
                        rows("output of the attention", autocast),
                        rows("output of w2", autocast),
                        rows("output of the block", WIDE)),
                isNarrow() ? List.of(rows("output of ln1", WIDE), rows("output of ln2", WIDE)) : List.of());
    }

    // ---- backward ----

    private List<MemoryInventory> backward(List<TensorMemory> held) {
        var start = new ArrayList<>(kept());
        start.add(vocabulary("gradient of log-probabilities", WIDE));
        start.add(vocabulary("gradient of logits", WIDE));
        var points = new ArrayList<MemoryInventory>();
        points.add(MemoryInventory.of("start of backward", held, start));
        points.add(MemoryInventory.of("backward of lm_head", held, backwardOfHead()));
        for (LiveActivations others : plan().backward()) {
            points.add(MemoryInventory.of(
                    "backward of " + named("feed-forward layer", others), held, backwardOfFeedForward(others)));
            points.add(MemoryInventory.of("backward of " + named("softmax", others), held, backwardOfSoftmax(others)));
        }
        points.add(MemoryInventory.of("end of backward", held, endOfBackward()));
        return points;
    }

    private String named(String part, LiveActivations others) {
        int block = others.block();
        if (block == config.numLayers() - 1) {
            return "the last " + part;
        }
        return block == 0 ? "the first " + part : "the " + part + " of block " + block;
    }

    /** Returns the tensors alive when both gradients of lm_head's matmul exist. */
    private List<TensorMemory> backwardOfHead() {
        var alive = new ArrayList<TensorMemory>();
        kept().stream()
                .filter(tensor -> !tensor.name().equals("log-probabilities"))
                .forEach(alive::add);
        alive.add(vocabulary("gradient of logits", autocast));
        alive.add(rows("gradient of lm_head's input", autocast));
        alive.add(new TensorMemory("gradient of lm_head's weight", "V × D", autocast, 1, vocabularyMatrix()));
        return alive;
    }

    /** Returns the tensors alive after the backward pass of a block's gate multiplication (2025) or GELU (2024). */
    private List<TensorMemory> backwardOfFeedForward(LiveActivations others) {
        int block = others.block();
        var alive = new ArrayList<TensorMemory>(activations(others));
        alive.addAll(keptByBlock());
        alive.addAll(weightCasts(others));
        alive.addAll(weightCasts(1));
        alive.addAll(recomputations(others.depth(), others.laterInRecomputation()));
        alive.add(vocabulary("logits", autocast));
        long dDf = (long) config.dModel() * config.dFf();
        alive.add(gradients(gradientsAbove(block) + dDf));
        alive.add(rows("gradient of the residual stream", WIDE));
        // The gradients of the activation's inputs and output, minus the input of w2, which has been freed.
        int inner = is2024() ? 1 : 2;
        alive.add(new TensorMemory(
                "gradients inside the feed-forward layer, minus the input of w2",
                "N × F",
                autocast,
                inner,
                innerElements()));
        return alive;
    }

    private List<TensorMemory> backwardOfSoftmax(LiveActivations others) {
        int block = others.block();
        var alive = new ArrayList<TensorMemory>(activations(others));
        alive.addAll(keptUpToSoftmax());
        alive.addAll(weightCasts(others));
        alive.addAll(weightCasts(1));
        alive.addAll(recomputations(others.depth(), others.laterInRecomputation()));
        alive.add(vocabulary("logits", autocast));
        long d = config.dModel();
        alive.add(gradients(gradientsAbove(block) + matrices() * d * config.dFf() + d + d * d));
        alive.add(rows("gradient of the residual stream", WIDE));
        alive.add(rows("gradient of values", autocast));
        alive.add(attentionMatrix("gradient of probabilities", softmaxType()));
        alive.add(attentionMatrix("gradient of scores", softmaxType()));
        if (on == DeviceKind.CUDA) {
            alive.add(attentionMatrix("gradient × probabilities", softmaxType()));
        }
        return alive;
    }

    private List<TensorMemory> endOfBackward() {
        var alive = new ArrayList<TensorMemory>();
        alive.add(vocabulary("logits", autocast));
        alive.add(gradients(config.parameterCount()));
        if (is2024()) {
            alive.add(new TensorMemory(
                    "gradient of the tied embedding table, as embedding", "V × D", WIDE, 1, vocabularyMatrix()));
        }
        if (is2024() && !isNarrow()) {
            // The gradient of the head is a transposed view; the other gradient cannot be accumulated in place.
            alive.add(new TensorMemory("sum of its two gradients", "V × D", WIDE, 1, vocabularyMatrix()));
        } else {
            alive.add(rows("gradient of the residual stream", WIDE));
        }
        return alive;
    }

    /** Returns the number of elements of the gradients that exist when the backward pass reaches a block. */
    private long gradientsAbove(int block) {
        long d = config.dModel();
        long perBlock = blockMatrices() + 2 * d;
        return vocabularyMatrix() + d + (config.numLayers() - 1L - block) * perBlock;
    }

    private CheckpointPlan plan() {
        return config.checkpointing().plan(config.numLayers());
    }

    /** Returns the point before the last block, if all weight casts but no activations are kept. */
    private LiveActivations withoutGraph() {
        return new LiveActivations(config.numLayers() - 1, config.numLayers() - 1, 0, 0, 0, 0);
    }

    /** Returns the activations that other blocks keep. */
    private List<TensorMemory> activations(LiveActivations others) {
        List<TensorMemory> withoutFeedForward = joined(keptByAttention(), List.of(rows("input of ln2", WIDE)));
        var kept = new ArrayList<TensorMemory>();
        keptByBlock().forEach(tensor -> kept.add(tensor.times(others.blocks())));
        withoutFeedForward.forEach(tensor -> kept.add(tensor.times(others.blocksWithoutFeedForward())));
        kept.add(rows("input of recomputed blocks", WIDE).times(others.inputs()));
        kept.removeIf(tensor -> tensor.count() == 0);
        return kept;
    }

    /**
     * Returns what functions hold during the backward pass of their recomputation: their outputs, and the gradients of
     * those that are not the present gradient of the residual stream.
     */
    private List<TensorMemory> recomputations(int depth, int gradients) {
        var held = new ArrayList<TensorMemory>();
        held.add(rows("output of recomputed blocks", WIDE).times(depth));
        held.add(rows("gradient of this output", WIDE).times(gradients));
        held.removeIf(tensor -> tensor.count() == 0);
        return held;
    }

    // ---- alive throughout ----

    /** Returns the parameters, the buffers of the model, the batch and the cuBLAS workspaces. */
    private List<TensorMemory> always(int cublasThreads) {
        var held = new ArrayList<TensorMemory>();
        held.add(new TensorMemory("parameters", "P", WIDE, 1, config.parameterCount()));
        held.add(new TensorMemory("token ids and targets", "N", DType.INT64, 2, tokens()));
        if (!is2024()) {
            held.add(
                    new TensorMemory("rotary position table", "T × D/H", WIDE, 1, (long) context() * config.headDim()));
        }
        held.add(new TensorMemory("mask", "T × T", autocast, 1, (long) context() * context()));
        if (on == DeviceKind.CUDA) {
            held.add(new TensorMemory("cuBLAS workspace", "", WIDE, cublasThreads, CUBLAS_WORKSPACE / WIDE.bytes()));
        }
        return held;
    }

    private List<TensorMemory> optimizerState() {
        return List.of(new TensorMemory("moments of AdamW", "P", WIDE, 2, config.parameterCount()));
    }

    private static TensorMemory gradients(long elements) {
        return new TensorMemory("gradients of parameters", "up to P", WIDE, 1, elements);
    }

    // ---- sizes ----

    private boolean is2024() {
        return config.edition() == ModelEdition.SPRING_2024;
    }

    private boolean isNarrow() {
        return autocast.bytes() < WIDE.bytes();
    }

    private DType softmaxType() {
        return on == DeviceKind.CUDA ? WIDE : autocast;
    }

    private int context() {
        return config.contextLength();
    }

    private long tokens() {
        return (long) batch * context();
    }

    private long rows() {
        return tokens() * config.dModel();
    }

    private long innerElements() {
        return tokens() * config.dFf();
    }

    private long vocabularyMatrix() {
        return (long) config.vocabSize() * config.dModel();
    }

    private int matrices() {
        return is2024() ? 2 : 3;
    }

    private long blockMatrices() {
        long d = config.dModel();
        return 4 * d * d + matrices() * d * config.dFf();
    }

    private TensorMemory rows(String name, DType dtype) {
        return new TensorMemory(name, "N × D", dtype, 1, rows());
    }

    private TensorMemory inner(String name) {
        return new TensorMemory(name, "N × F", autocast, 1, innerElements());
    }

    private TensorMemory attentionMatrix(String name, DType dtype) {
        return new TensorMemory(name, "B × H × T × T", dtype, 1, tokens() * context() * config.numHeads());
    }

    private TensorMemory vocabulary(String name, DType dtype) {
        return new TensorMemory(name, "N × V", dtype, 1, tokens() * config.vocabSize());
    }

    @SafeVarargs
    @SuppressWarnings("varargs") // the array is only read
    private static List<TensorMemory> joined(List<TensorMemory>... lists) {
        return Stream.of(lists).flatMap(List::stream).toList();
    }
}
