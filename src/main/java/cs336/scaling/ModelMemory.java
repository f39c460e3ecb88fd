package cs336.scaling;

import cs336.basics.Fuser;
import cs336.basics.ModelEdition;
import cs336.basics.Normalization;
import cs336.basics.TransformerConfig;
import cs336.bench.ArgumentCheck;
import cs336.bench.Pass;
import cs336.checkpointing.BlockBytes;
import cs336.checkpointing.CheckpointPlan;
import cs336.checkpointing.LiveActivations;
import cs336.scaling.TensorMemory.TensorPurpose;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;

/**
 * The predicted memory of a {@link cs336.basics.TransformerLM} in training, tensor by tensor: parameters, gradients,
 * AdamW's moments, the tensors that each layer saves for its backward pass, and the temporary tensors at the points in
 * the step where memory may peak. Attention is plain or streaming: a streaming one, such as FlashAttention, never
 * stores the scores.
 *
 * <p>Parameters, gradients and moments are fp32. Under autocast, matmuls have inputs and outputs of the autocast type;
 * {@link #keptByBlock} lists the types of all saved tensors. A tensor counts as alive while Java refers to it: a module
 * holds its intermediate results until it returns, and the logits live until the end of the backward pass.
 *
 * <p>{@link TransformerConfig#checkpointing} states which activations are kept. A recomputed function holds its output
 * and the gradient of its output until its backward pass has ended.
 *
 * <p>Parameters of a 16-bit type, as FSDP gathers them for a 16-bit compute dtype, make the residual stream 16-bit:
 * there are no casts then, and the softmax has 16 bits too.
 *
 * <p>Letters of the shapes: B sequences of T tokens, N = BT tokens; D, F and V are the widths of the residual stream,
 * the feed-forward layer and the vocabulary; H is the number of heads and P the number of parameters.
 *
 * @param config the model; {@code config.contextLength()} is T
 * @param batch B
 * @param autocast type of the matmuls: fp32 without autocast, else bf16 or fp16
 * @param on kind of device. Under autocast the softmax is fp32 on CUDA and has the autocast type on the CPU. On CUDA
 *     the backward pass of the softmax needs one more tensor, and cuBLAS has workspaces.
 * @param residual type of the residual stream: fp32, or the autocast type if the parameters have that type
 * @param lossRows number of tokens whose logits are in memory at a time, see {@link cs336.basics.LinearCrossEntropy}; 0
 *     for all
 */
public record ModelMemory(
        TransformerConfig config, int batch, DType autocast, DeviceKind on, DType residual, int lossRows) {
    /**
     * The workspace in bytes that cuBLAS takes from PyTorch's allocator for each thread that calls it: PyTorch's
     * default on Hopper. On older GPUs it is 8.125 MiB.
     */
    public static final long CUBLAS_WORKSPACE = 32L << 20;

    private static final DType WIDE = DType.FLOAT32;
    private static final String LOG_PROBABILITIES = "log-probabilities";
    private static final String LOSS = "loss";
    private static final String LOGITS = "logits";
    private static final String START_OF_BACKWARD = "start of backward";
    private static final String BACKWARD_OF_HEAD = "backward of lm_head";

    private static final String PLAIN = "plain";

    private static final Set<String> STREAMING =
            Set.of("flash", "flash-deterministic", "flash-mma", "flash-tf32", "flash-3xtf32", "flash-tiled", "sdpa");

    private static final Set<String> NORMALIZATIONS = Set.of("rmsnorm", "rmsnorm-fused", "layernorm");

    /**
     * @throws IllegalArgumentException if the memory of the model's normalization or attention is not known, the batch
     *     is below 1, the number of loss rows is below 0, the autocast type is wider than fp32, or the residual stream
     *     has neither fp32 nor the autocast type
     */
    public ModelMemory {
        ArgumentCheck.atLeast("batch", 1, batch);
        ArgumentCheck.atLeast("lossRows", 0, lossRows);
        if (!isPredicted(config)) {
            throw new IllegalArgumentException("the memory of " + config.normalization() + " with "
                    + config.attention() + " attention is not predicted; predicted are "
                    + String.join(", ", new TreeSet<>(NORMALIZATIONS)) + " with plain, "
                    + String.join(", ", new TreeSet<>(STREAMING)));
        }
        if (residual != WIDE && residual != autocast) {
            throw new IllegalArgumentException("residual must be fp32 or " + autocast + ", not " + residual);
        }
        if (autocast.bytes() > WIDE.bytes()) {
            throw new IllegalArgumentException("autocast must be fp32, bf16 or fp16, not " + autocast);
        }
    }

    /** Creates the prediction for a model with fp32 parameters and a loss that is computed for all tokens at once. */
    public ModelMemory(TransformerConfig config, int batch, DType autocast, DeviceKind on) {
        this(config, batch, autocast, on, WIDE, 0);
    }

    /** Returns whether the memory of the model's normalization and attention is known. */
    public static boolean isPredicted(TransformerConfig config) {
        return NORMALIZATIONS.contains(config.normalization())
                && (config.attention().equals(PLAIN) || STREAMING.contains(config.attention()));
    }

    /**
     * Returns whether an inventory of {@link #candidates} is that of a point at which the model computes with lm_head.
     */
    public static boolean usesHead(MemoryInventory point) {
        return Set.of(LOSS, LOGITS, START_OF_BACKWARD, BACKWARD_OF_HEAD).contains(point.name());
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
                                attentionPoint(),
                                always(1),
                                embedded(),
                                weightCastsInAttention(weightCasts(config.numLayers() - 1)),
                                attentionOfForward(false)),
                        MemoryInventory.of(
                                "output of attention in the last block",
                                always(1),
                                embedded(),
                                weightCastsInAttention(weightCasts(config.numLayers() - 1)),
                                endOfAttention()),
                        MemoryInventory.of(
                                "end of the last block",
                                always(1),
                                embedded(),
                                weightCasts(config.numLayers()),
                                endOfFeedForward()),
                        MemoryInventory.of(
                                LOGITS,
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
                                List.of(MemoryInventory.of("optimizer", held, gradients())))
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
        return keptByBlock(plan().recomputesElementwise());
    }

    private List<TensorMemory> keptByBlock(boolean recomputesElementwise) {
        return joined(keptByAttention(recomputesElementwise), keptByFeedForward(recomputesElementwise));
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
        long input = rows("input", residual).bytes();
        long attention = MemoryInventory.bytes(keptByAttention(false));
        long feedForward = MemoryInventory.bytes(keptByFeedForward(false));
        long elementwiseOfFeedForward = feedForward - MemoryInventory.bytes(keptByFeedForward(true));
        long elementwiseOfAttention = attention - MemoryInventory.bytes(keptByAttention(true));
        return new BlockBytes(
                attention + feedForward,
                feedForward - input,
                input,
                elementwiseOfAttention + elementwiseOfFeedForward,
                elementwiseOfFeedForward);
    }

    /** Returns the size of {@link #kept} in bytes. */
    public long keptBytes() {
        return MemoryInventory.bytes(kept());
    }

    // ---- saved for the backward pass ----

    /** @param recomputes whether the results of normalizations and activation functions are recomputed */
    private List<TensorMemory> keptByAttention(boolean recomputes) {
        if (isStreaming()) {
            List<TensorMemory> kept = keptUpToAttention(recomputes);
            // The tiled attention of the CPU is the only one that does not write the layout of output_proj's input.
            boolean copied = on == DeviceKind.CPU && !config.attention().equals("sdpa");
            return copied ? joined(kept, List.of(rows("input of output_proj", autocast))) : kept;
        }
        return joined(
                keptUpToAttention(recomputes),
                probabilitiesCast(),
                List.of(rows("values, per head", autocast), rows("input of output_proj", autocast)));
    }

    /** Returns the saved tensors up to the softmax, or up to the output of a streaming attention. */
    private List<TensorMemory> keptUpToAttention(boolean recomputes) {
        var kept = new ArrayList<>(recomputes ? List.of(input("ln1")) : keptByNorm("ln1"));
        if (!recomputes) {
            kept.addAll(inputs("q_proj, k_proj, v_proj", 3));
        }
        if (isStreaming()) {
            kept.add(new TensorMemory("queries, keys, values", "N × D", autocast, 3, rows()));
            kept.add(rows("output of the attention, input of output_proj", autocast));
            kept.add(new TensorMemory("log-sum-exp of scores", "N × H", WIDE, 1, tokens() * config.numHeads()));
        } else {
            kept.add(rows("queries, scaled, per head", autocast));
            kept.add(rows("keys, per head", autocast));
            kept.add(probabilities());
        }
        return kept;
    }

    private TensorMemory probabilities() {
        return attentionMatrix("probabilities", softmaxType());
    }

    /** Returns the cast of the probabilities if the softmax is fp32 and the matmul with V has 16 bits. */
    private List<TensorMemory> probabilitiesCast() {
        return softmaxType() == autocast
                ? List.of()
                : List.of(attentionMatrix("probabilities, cast for the matmul with V", autocast));
    }

    /** @param recomputes whether the results of the normalization and the activation function are recomputed */
    private List<TensorMemory> keptByFeedForward(boolean recomputes) {
        if (recomputes) {
            return joined(List.of(input("ln2")), inputsOfActivation());
        }
        var kept = new ArrayList<>(keptByNorm("ln2"));
        kept.addAll(is2024() ? inputs("w1", 1) : inputs("w1, w3", 2));
        kept.addAll(innerOfFeedForward());
        return kept;
    }

    private List<TensorMemory> inputsOfActivation() {
        return is2024() ? List.of(inner("output of w1")) : List.of(inner("output of w1"), inner("output of w3"));
    }

    private List<TensorMemory> innerOfFeedForward() {
        return is2024()
                ? List.of(inner("output of w1"), inner("gelu(w1 x), input of w2"))
                : joined(
                        List.of(inner("output of w1")),
                        isFused() ? List.of() : List.of(inner("silu(w1 x)")),
                        List.of(inner("output of w3"), inner("silu(w1 x) w3 x, input of w2")));
    }

    private List<TensorMemory> keptByHead() {
        var kept = new ArrayList<>(keptByNorm("ln_final"));
        if (lossRows > 0) {
            kept.add(rows("gradient of lm_head's input, saved by the loss", autocast)
                    .as(TensorPurpose.LOGITS_AND_LOSS));
            kept.add(weightOfHead("gradient of lm_head's weight, saved by the loss", WIDE));
            return kept;
        }
        kept.addAll(inputs("lm_head", 1));
        kept.addAll(weightCastOfHead());
        kept.add(vocabulary("logits", autocast));
        kept.add(vocabulary(LOG_PROBABILITIES, WIDE));
        return kept;
    }

    /** Returns the logits while Java refers to them: none if the loss computes some rows at a time. */
    private List<TensorMemory> logits() {
        return lossRows > 0 ? List.of() : List.of(vocabulary("logits", autocast));
    }

    private List<TensorMemory> keptByNorm(String layer) {
        TensorMemory statistic = new TensorMemory(layer + ": 1 / rms", "N", WIDE, 1, tokens());
        return switch (config.normalization()) {
            case "rmsnorm-fused" -> List.of(input(layer));
            case "layernorm" ->
                List.of(input(layer), new TensorMemory(layer + ": mean, 1 / deviation", "N", WIDE, 2, tokens()));
            default ->
                List.of(
                        residual == WIDE ? input(layer) : rows("input of " + layer + " in fp32", WIDE),
                        rows(layer + ": x / rms", WIDE),
                        statistic);
        };
    }

    private TensorMemory input(String layer) {
        return rows("input of " + layer + ": the residual stream", residual);
    }

    /**
     * Returns the saved inputs of linear layers with a common input. In fp32 they share one tensor; under autocast each
     * layer saves its own cast, unless the layers are fused.
     */
    private List<TensorMemory> inputs(String layers, int count) {
        return isCast()
                ? List.of(new TensorMemory(
                        "inputs of " + layers + ", cast", "N × D", autocast, isFused() ? 1 : count, rows()))
                : List.of(rows("input of " + layers, residual));
    }

    /**
     * Returns autocast's casts of the weights. They live until the autocast scope ends, and in the graph until the
     * layer's backward pass.
     */
    private List<TensorMemory> weightCasts(int blocks) {
        return isCast() ? castsOf(blocks, true) : List.of();
    }

    /**
     * Returns {@link #weightCasts} of the blocks that keep activations; those of recomputed layers are freed. If
     * elementwise results are recomputed, only the cast of output_proj's weight is kept: the other linear layers are
     * parts of recomputed functions.
     */
    private List<TensorMemory> weightCasts(LiveActivations live) {
        if (!isCast()) {
            return List.of();
        }
        if (live.plan().recomputesElementwise()) {
            long blocks = (long) live.blocks() + live.blocksWithoutFeedForward();
            long d = config.dModel();
            return blocks == 0
                    ? List.of()
                    : List.of(weights("weights of output_proj, cast", "D × D", autocast, blocks, d * d));
        }
        return joined(castsOf(live.blocks(), true), castsOf(live.blocksWithoutFeedForward(), false));
    }

    private List<TensorMemory> castsOf(int blocks, boolean feedForward) {
        long d = config.dModel();
        var casts = new ArrayList<TensorMemory>();
        if (blocks > 0) {
            casts.add(weights("weights of attention, cast", "D × D", autocast, 4L * blocks, d * d));
            if (feedForward) {
                casts.add(weights(
                        "weights of the feed-forward layer, cast",
                        "D × F",
                        autocast,
                        (long) matrices() * blocks,
                        d * config.dFf()));
            }
        }
        return casts;
    }

    /** Returns the casts of weights while the last block computes its attention. */
    private List<TensorMemory> weightCastsInAttention(List<TensorMemory> ofOthers) {
        if (!isCast()) {
            return List.of();
        }
        long d = config.dModel();
        return joined(
                ofOthers, List.of(weights("weights of q_proj, k_proj, v_proj, cast", "D × D", autocast, 3, d * d)));
    }

    private List<TensorMemory> weightCastOfHead() {
        return isCast()
                ? List.of(weights("weight of lm_head, cast", "V × D", autocast, 1, vocabularyMatrix()))
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

    private String attentionPoint() {
        return isStreaming() ? "attention of the last block" : "softmax of the last block";
    }

    /** Returns the tensors of a block during its softmax, or during a streaming attention. */
    private List<TensorMemory> attentionOfForward(boolean graph) {
        var alive = new ArrayList<TensorMemory>();
        if (graph) {
            alive.addAll(keptUpToAttention(plan().recomputesElementwise(config.numLayers() - 1)));
            if (isCast()) {
                alive.add(rows("output of ln1", WIDE));
            }
        } else {
            alive.add(rows("input of the block", residual));
            alive.add(rows("output of ln1", residual));
            if (!isStreaming()) {
                alive.add(probabilities());
            } else {
                alive.add(rows("output of the attention", autocast));
                if (isCast() && !is2024()) {
                    alive.add(new TensorMemory("queries, keys, cast", "N × D", autocast, 2, rows()));
                }
            }
        }
        alive.addAll(projected(graph && isStreaming()));
        if (isStreaming()) {
            return alive;
        }
        alive.add(attentionMatrix("scores", autocast));
        if (softmaxType() != autocast) {
            alive.add(attentionMatrix("scores, cast for the softmax", softmaxType()));
        }
        return alive;
    }

    private List<TensorMemory> endOfAttention() {
        if (isStreaming()) {
            return joined(attentionOfForward(false), List.of(rows("output of output_proj", autocast)));
        }
        var alive = new ArrayList<TensorMemory>();
        alive.add(rows("input of the block", residual));
        alive.add(rows("output of ln1", residual));
        alive.addAll(projected(false));
        alive.add(probabilities());
        alive.addAll(probabilitiesCast());
        if (batch > 1) {
            alive.add(rows("values, per head", autocast));
        }
        alive.add(rows("output of the attention", autocast));
        return alive;
    }

    /**
     * Returns the projected queries, keys and values and, in the 2025 model, the rotated queries and keys.
     *
     * @param saved whether the inputs of the attention are counted among the saved tensors
     */
    private List<TensorMemory> projected(boolean saved) {
        if (is2024()) {
            return saved ? List.of() : List.of(projections(3));
        }
        var alive = new ArrayList<TensorMemory>();
        alive.add(projections(saved ? 2 : 3)); // the values are saved as projected
        boolean rotatesInFp32 = isNarrow() && !isFused();
        if (rotatesInFp32) {
            alive.add(new TensorMemory("queries, keys in fp32, before rotation", "N × D", WIDE, 2, rows()));
        }
        if (rotatesInFp32 || isCast()) {
            alive.add(new TensorMemory("queries, keys, rotated, in fp32", "N × D", WIDE, 2, rows()));
        }
        if (!saved && !isCast()) {
            alive.add(new TensorMemory("queries, keys, rotated", "N × D", autocast, 2, rows()));
        }
        return alive;
    }

    private TensorMemory projections(int count) {
        return new TensorMemory("queries, keys, values, as projected", "N × D", autocast, count, rows());
    }

    /** Returns the tensors of a block after its last matmul, without an autograd graph. */
    private List<TensorMemory> endOfFeedForward() {
        return joined(
                List.of(
                        rows("input of the block", residual),
                        rows("output of ln1", residual),
                        rows("output of the attention", autocast),
                        rows("residual stream after the attention", residual),
                        rows("output of ln2", residual),
                        rows("output of w2", autocast)),
                innerOfFeedForward());
    }

    private List<TensorMemory> logitsWithoutGraph() {
        var alive = new ArrayList<TensorMemory>();
        alive.add(rows("input of ln_final", residual));
        alive.add(rows("output of ln_final", residual));
        if (isCast()) {
            alive.add(rows("output of ln_final, cast", autocast));
        }
        alive.add(vocabulary("logits", autocast));
        return alive;
    }

    private List<MemoryInventory> forwardWithGraph(List<TensorMemory> held) {
        LiveActivations last = plan().backward().get(0); // also before its forward pass
        var loss = new ArrayList<>(kept());
        if (lossRows > 0) {
            loss.addAll(chunkOfLoss());
        } else if (isNarrow()) {
            loss.add(vocabulary("logits in fp32", WIDE));
        }
        var points = new ArrayList<MemoryInventory>();
        for (LiveActivations others : plan().backward()) { // also the activations of other blocks in the forward pass
            points.add(0, MemoryInventory.of("end of " + named("block", others), held, embedded(), endOfBlock(others)));
        }
        points.add(MemoryInventory.of(
                attentionPoint(),
                held,
                embedded(),
                activations(last),
                last.plan().recomputesElementwise(last.block())
                        ? weightCasts(last)
                        : weightCastsInAttention(weightCasts(last)),
                attentionOfForward(true)));
        points.add(MemoryInventory.of(LOSS, held, loss));
        return points;
    }

    /** Returns the temporary tensors of the loss while it computes the gradients of some rows of logits. */
    private List<TensorMemory> chunkOfLoss() {
        long elements = Math.min(lossRows, tokens()) * (long) config.vocabSize();
        var alive = new ArrayList<TensorMemory>();
        alive.add(rows("output of ln_final", residual));
        if (isCast()) {
            alive.add(rows("output of ln_final, cast", autocast));
        }
        alive.addAll(weightCastOfHead());
        if (!isNarrow() || on == DeviceKind.CPU) { // the kernel for 16-bit logits on a GPU replaces them in place
            alive.add(new TensorMemory("probabilities of a chunk", "rows × V", WIDE, 1, elements)
                    .as(TensorPurpose.LOGITS_AND_LOSS));
        }
        alive.add(new TensorMemory("logits of a chunk, or their gradient", "rows × V", autocast, 1, elements)
                .as(TensorPurpose.LOGITS_AND_LOSS));
        return alive;
    }

    /** Returns the tensors alive after the last operation of a block that keeps its activations until then. */
    private List<TensorMemory> endOfBlock(LiveActivations others) {
        return joined(
                activations(others),
                weightCasts(others),
                weightCasts(1),
                keptDuring(others),
                List.of(
                        rows("output of the attention", autocast),
                        rows("output of w2", autocast),
                        rows("output of the block", residual)),
                isCast() ? List.of(rows("output of ln1", WIDE), rows("output of ln2", WIDE)) : List.of());
    }

    // ---- backward ----

    private List<MemoryInventory> backward(List<TensorMemory> held) {
        var start = new ArrayList<>(kept());
        if (lossRows > 0) {
            start.add(rows("gradient of lm_head's input", autocast));
            start.add(gradientOfHead(residual));
        } else {
            start.add(vocabulary("gradient of log-probabilities", WIDE));
            start.add(vocabulary("gradient of logits", WIDE));
        }
        var points = new ArrayList<MemoryInventory>();
        points.add(MemoryInventory.of(START_OF_BACKWARD, held, start));
        if (lossRows == 0) {
            points.add(MemoryInventory.of(BACKWARD_OF_HEAD, held, backwardOfHead()));
        }
        for (LiveActivations others : plan().backward()) {
            points.add(MemoryInventory.of(
                    "backward of " + named("feed-forward layer", others), held, backwardOfFeedForward(others)));
            points.add(MemoryInventory.of(
                    "backward of " + named(isStreaming() ? "attention" : "softmax", others),
                    held,
                    backwardOfAttention(others)));
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
                .filter(tensor -> !tensor.name().equals(LOG_PROBABILITIES))
                .forEach(alive::add);
        alive.add(vocabulary("gradient of logits", autocast));
        alive.add(rows("gradient of lm_head's input", autocast));
        alive.add(gradientOfHead(autocast));
        return alive;
    }

    /** Returns the tensors alive after the backward pass of a block's gate multiplication (2025) or GELU (2024). */
    private List<TensorMemory> backwardOfFeedForward(LiveActivations others) {
        int block = others.block();
        var alive = new ArrayList<TensorMemory>(activations(others));
        alive.addAll(keptDuring(others));
        alive.addAll(weightCasts(others));
        alive.addAll(weightCasts(1));
        alive.addAll(recomputations(others.depth(), others.laterInRecomputation()));
        alive.addAll(logits());
        alive.addAll(gradientsAbove(block, 1, 0, 0));
        alive.add(rows("gradient of the residual stream", residual));
        // The gradients of the activation's inputs and output exist, and the input of w2 has been freed.
        int gradients = is2024() ? 2 : 3;
        boolean recomputed = recomputesActivation(others);
        String name = "gradients inside the feed-forward layer" + (recomputed ? "" : ", minus the input of w2");
        alive.add(new TensorMemory(name, "N × F", autocast, recomputed ? gradients : gradients - 1, innerElements()));
        if (recomputed && !is2024() && !isFused()) {
            alive.add(inner("silu(w1 x), recomputed"));
        }
        return alive;
    }

    private List<TensorMemory> backwardOfAttention(LiveActivations others) {
        int block = others.block();
        var alive = new ArrayList<TensorMemory>(activations(others));
        alive.addAll(keptUpToAttention(others.plan().recomputesElementwise(block)));
        alive.addAll(weightCasts(others));
        alive.addAll(weightCasts(1));
        alive.addAll(recomputations(others.depth(), others.laterInRecomputation()));
        alive.addAll(logits());
        alive.addAll(gradientsAbove(block, matrices(), 1, 1));
        alive.add(rows("gradient of the residual stream", residual));
        if (isStreaming()) {
            alive.add(rows("gradient of the output", autocast));
            alive.add(new TensorMemory("gradients of queries, keys, values", "N × D", autocast, 3, rows()));
            if (isNarrow()) {
                alive.add(rows("gradient of queries, accumulated", WIDE));
            }
            return alive;
        }
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
        alive.addAll(logits());
        alive.addAll(gradients());
        if (is2024()) {
            alive.add(gradient("gradient of the tied embedding table, as embedding"));
        }
        if (is2024() && !isNarrow()) {
            // The gradient of the head is a transposed view; the other gradient cannot be accumulated in place.
            alive.add(gradient("sum of its two gradients"));
        } else {
            alive.add(rows("gradient of the residual stream", residual));
        }
        return alive;
    }

    private TensorMemory gradient(String name) {
        return new TensorMemory(name, "V × D", WIDE, 1, vocabularyMatrix()).as(TensorPurpose.GRADIENTS);
    }

    private TensorMemory gradientOfHead(DType dtype) {
        return new TensorMemory("gradient of lm_head's weight", "V × D", dtype, 1, vocabularyMatrix())
                .as(TensorPurpose.GRADIENTS);
    }

    /**
     * Returns the gradients that exist during the backward pass of a block: those of the head and of later blocks, and
     * some of the block itself.
     *
     * @param feedForward number of the block's D × F matrices that have a gradient
     * @param norms number of its normalizations that have one
     * @param projections number of its D × D matrices that have one
     */
    private List<TensorMemory> gradientsAbove(int block, int feedForward, int norms, int projections) {
        long later = config.numLayers() - 1L - block;
        return parameterTensors("gradients", TensorPurpose.GRADIENTS, new long[] {
            1, 4 * later + projections, matrices() * later + feedForward, 2 * later + norms + 1
        });
    }

    private List<TensorMemory> gradients() {
        return joined(
                wholeModel("gradients", TensorPurpose.GRADIENTS),
                positionEmbeddings("gradient", TensorPurpose.GRADIENTS));
    }

    private CheckpointPlan plan() {
        CheckpointPlan plan = config.checkpointing().plan(config.numLayers());
        return on == DeviceKind.CPU ? plan.withoutOffloading() : plan;
    }

    /** Returns whether a block recomputes the activation function of its feed-forward layer, but not the rest. */
    private static boolean recomputesActivation(LiveActivations others) {
        return others.plan().recomputesElementwise(others.block())
                && !others.plan().recomputesFeedForward(others.block());
    }

    /** Returns the tensors of a block during its own backward pass. */
    private List<TensorMemory> keptDuring(LiveActivations others) {
        return joined(
                keptByAttention(others.plan().recomputesElementwise(others.block())),
                keptByFeedForward(recomputesActivation(others)));
    }

    /** Returns the activations that other blocks keep. */
    private List<TensorMemory> activations(LiveActivations others) {
        boolean recomputesElementwise = others.plan().recomputesElementwise();
        List<TensorMemory> withoutFeedForward =
                joined(keptByAttention(recomputesElementwise), List.of(rows("input of ln2", residual)));
        var kept = new ArrayList<TensorMemory>();
        keptByBlock(recomputesElementwise).forEach(tensor -> kept.add(tensor.times(others.blocks())));
        withoutFeedForward.forEach(tensor -> kept.add(tensor.times(others.blocksWithoutFeedForward())));
        inputsOfActivation().forEach(tensor -> kept.add(tensor.times(others.inTransfer())));
        kept.add(rows("input of recomputed blocks", residual).times(others.inputs()));
        kept.removeIf(tensor -> tensor.count() == 0);
        return kept;
    }

    /**
     * Returns the tensors that recomputed functions hold during their backward pass: their outputs, and the gradients
     * of the outputs except the current gradient of the residual stream.
     *
     * @param depth number of outputs
     * @param gradients number of gradients
     */
    private List<TensorMemory> recomputations(int depth, int gradients) {
        var held = new ArrayList<TensorMemory>();
        held.add(rows("output of recomputed blocks", residual).times(depth));
        held.add(rows("gradient of this output", residual).times(gradients));
        held.removeIf(tensor -> tensor.count() == 0);
        return held;
    }

    // ---- alive throughout ----

    /** Returns the parameters, the buffers of the model, the batch and the cuBLAS workspaces. */
    private List<TensorMemory> always(int cublasThreads) {
        var held = new ArrayList<TensorMemory>();
        held.addAll(wholeModel("parameters", TensorPurpose.PARAMETERS));
        held.addAll(positionEmbeddings("parameters", TensorPurpose.PARAMETERS));
        held.add(new TensorMemory("token ids and targets", "N", DType.INT64, 2, tokens()));
        if (!is2024()) {
            held.add(
                    new TensorMemory("rotary position table", "T × D/H", WIDE, 1, (long) context() * config.headDim()));
        }
        if (!isStreaming()) {
            held.add(new TensorMemory("mask", "T × T", autocast, 1, (long) context() * context()));
        }
        if (on == DeviceKind.CUDA) {
            held.add(new TensorMemory("cuBLAS workspace", "", WIDE, cublasThreads, CUBLAS_WORKSPACE / WIDE.bytes())
                    .as(TensorPurpose.WORKSPACES));
        }
        return held;
    }

    private List<TensorMemory> optimizerState() {
        var moments = new ArrayList<TensorMemory>();
        for (String name : List.of("first moment of AdamW", "second moment of AdamW")) {
            moments.addAll(wholeModel(name, TensorPurpose.OPTIMIZER_STATE));
            moments.addAll(positionEmbeddings(name, TensorPurpose.OPTIMIZER_STATE));
        }
        return moments;
    }

    /** Returns fp32 tensors of the shapes of all parameters except position embeddings. */
    private List<TensorMemory> wholeModel(String name, TensorPurpose purpose) {
        long blocks = config.numLayers();
        return parameterTensors(
                name, purpose, new long[] {is2024() ? 1 : 2, 4 * blocks, matrices() * blocks, 2 * blocks + 1});
    }

    private List<TensorMemory> positionEmbeddings(String name, TensorPurpose purpose) {
        return is2024()
                ? List.of(new TensorMemory(
                        name + " of position embeddings",
                        "T × D",
                        WIDE,
                        1,
                        (long) context() * config.dModel(),
                        purpose))
                : List.of();
    }

    /**
     * Returns fp32 tensors of the shapes of parameters.
     *
     * @param counts numbers of vocabulary matrices, projections of the attention, matrices of feed-forward layers, and
     *     normalizations
     */
    private List<TensorMemory> parameterTensors(String name, TensorPurpose purpose, long[] counts) {
        long d = config.dModel();
        int gains = Normalization.named(config.normalization()).parametersPerFeature();
        return Stream.of(
                        new TensorMemory(
                                name + " of embeddings and head",
                                "V × D",
                                WIDE,
                                counts[0],
                                vocabularyMatrix(),
                                purpose),
                        new TensorMemory(name + " of attention layers", "D × D", WIDE, counts[1], d * d, purpose),
                        new TensorMemory(
                                name + " of feed-forward layers", "D × F", WIDE, counts[2], d * config.dFf(), purpose),
                        new TensorMemory(name + " of normalizations", "D", WIDE, gains * counts[3], d, purpose))
                .filter(tensor -> tensor.count() > 0)
                .toList();
    }

    // ---- sizes ----

    private boolean is2024() {
        return config.edition() == ModelEdition.SPRING_2024;
    }

    private boolean isNarrow() {
        return autocast.bytes() < WIDE.bytes();
    }

    /** Returns whether autocast casts the inputs and weights of matmuls. */
    private boolean isCast() {
        return isNarrow() && residual == WIDE;
    }

    /** Returns whether generated kernels replace elementwise operators, which exist on CUDA only. */
    private boolean isFused() {
        return on == DeviceKind.CUDA && !config.fusion().equals(Fuser.NONE);
    }

    private boolean isStreaming() {
        return STREAMING.contains(config.attention());
    }

    private DType softmaxType() {
        return on == DeviceKind.CUDA && isCast() ? WIDE : autocast;
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
        return config.vocabularyMatrixElements();
    }

    private int matrices() {
        return config.edition().feedForwardMatrices();
    }

    private TensorMemory rows(String name, DType dtype) {
        return new TensorMemory(name, "N × D", dtype, 1, rows());
    }

    private TensorMemory inner(String name) {
        return new TensorMemory(name, "N × F", autocast, 1, innerElements());
    }

    private TensorMemory attentionMatrix(String name, DType dtype) {
        return new TensorMemory(
                name, "B × H × T × T", dtype, 1, Math.multiplyExact(tokens() * context(), (long) config.numHeads()));
    }

    private static TensorMemory weights(String name, String shape, DType dtype, long count, long elements) {
        return new TensorMemory(name, shape, dtype, count, elements).as(TensorPurpose.PARAMETERS);
    }

    private TensorMemory weightOfHead(String name, DType dtype) {
        return new TensorMemory(name, "V × D", dtype, 1, vocabularyMatrix()).as(TensorPurpose.LOGITS_AND_LOSS);
    }

    private TensorMemory vocabulary(String name, DType dtype) {
        return new TensorMemory(name, "N × V", dtype, 1, tokens() * config.vocabSize())
                .as(TensorPurpose.LOGITS_AND_LOSS);
    }

    @SafeVarargs
    @SuppressWarnings("varargs") // the array is only read
    private static List<TensorMemory> joined(List<TensorMemory>... lists) {
        return Stream.of(lists).flatMap(List::stream).toList();
    }
}
