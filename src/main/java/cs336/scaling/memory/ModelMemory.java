package cs336.scaling.memory;

import static cs336.scaling.memory.ModelTensors.PLAIN;
import static cs336.scaling.memory.ModelTensors.STREAMING;
import static cs336.scaling.memory.ModelTensors.WIDE;

import cs336.basics.TransformerConfig;
import cs336.bench.ArgumentCheck;
import cs336.bench.Pass;
import cs336.checkpointing.BlockBytes;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

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
        return StepInventories.usesHead(point);
    }

    /** Returns the inventory at the peak of a pass, from its second run on, when AdamW's moments exist. */
    public MemoryInventory peak(Pass pass) {
        return candidates(pass).stream()
                .max(Comparator.comparingLong(MemoryInventory::bytes))
                .orElseThrow();
    }

    /** Returns the inventories at the points of a pass where memory may peak, in order of time. */
    public List<MemoryInventory> candidates(Pass pass) {
        return new StepInventories(tensors(), lossRows).candidates(pass);
    }

    /**
     * Returns the tensors alive between two passes, except gradients and optimizer state. The thread of the forward
     * pass and that of the backward pass each have a cuBLAS workspace.
     */
    public List<TensorMemory> idle() {
        return tensors().always(2);
    }

    /** Returns the tensors that one block saves for its backward pass. */
    public List<TensorMemory> keptByBlock() {
        return saved().keptByBlock();
    }

    /** Returns the tensors that the whole forward pass saves for the backward pass: blocks, last layers and loss. */
    public List<TensorMemory> kept() {
        return saved().kept();
    }

    /** Returns the memory of one block for a {@link cs336.checkpointing.CheckpointPolicy#budget}. */
    public BlockBytes blockBytes() {
        long input = tensors().rows("input", residual).bytes();
        long attention = MemoryInventory.bytes(saved().keptByAttention(false));
        long feedForward = MemoryInventory.bytes(saved().keptByFeedForward(false));
        long elementwiseOfFeedForward = feedForward - MemoryInventory.bytes(saved().keptByFeedForward(true));
        long elementwiseOfAttention = attention - MemoryInventory.bytes(saved().keptByAttention(true));
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

    private ModelTensors tensors() {
        return new ModelTensors(config, batch, autocast, on, residual);
    }

    private SavedTensors saved() {
        return new SavedTensors(tensors(), lossRows);
    }
}
