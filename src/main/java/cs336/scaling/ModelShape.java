package cs336.scaling;

import cs336.basics.TransformerConfig;
import cs336.bench.ArgumentCheck;
import cs336.scaling.memory.MemoryInventory;
import cs336.scaling.memory.ModelMemory;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import cs336.units.Bytes;
import cs336.units.Flop;
import cs336.units.Tokens;

/**
 * The sizes of a model that determine its memory, FLOP and communication: equal blocks of matrices, and the rest.
 *
 * @param name name of the model in tables
 * @param blocks L, the number of blocks
 * @param dModel D, the width of the residual stream
 * @param blockMatrices parameters in the matrices of one block
 * @param headMatrix parameters in the matrix after the blocks; 0 without a head
 * @param otherParameters parameters that are not in a matmul: embeddings and normalization weights
 * @param pairs number of matrix pairs in a block that tensor parallelism splits first by columns, then by rows: 1 with
 *     a feed-forward layer only, 2 with attention
 * @param keptPerToken bytes of activations per token and block that are kept for the backward pass, without
 *     recomputation
 */
public record ModelShape(
        String name,
        int blocks,
        int dModel,
        long blockMatrices,
        long headMatrix,
        long otherParameters,
        int pairs,
        Bytes keptPerToken) {
    /**
     * The model of the problem {@code communication_accounting}: 126 blocks of two linear layers, 16,384 → 53,248 →
     * 16,384, with activations in bf16.
     */
    public static final ModelShape XXL = feedForward("XXL", 126, 16_384, 53_248, DType.BFLOAT16);

    /**
     * @throws IllegalArgumentException if {@code blocks}, {@code dModel}, {@code blockMatrices} or {@code pairs} is
     *     below 1
     */
    public ModelShape {
        ArgumentCheck.atLeast("blocks", 1, blocks);
        ArgumentCheck.atLeast("dModel", 1, dModel);
        ArgumentCheck.atLeast("pairs", 1, pairs);
        if (blockMatrices < 1) {
            throw new IllegalArgumentException("blockMatrices must be at least 1, not " + blockMatrices);
        }
    }

    /**
     * Returns a model of blocks of two linear layers, D → F → D, without activation function, attention, embeddings and
     * head. Each layer keeps its input for the gradient of its weight: D and F elements per token.
     *
     * @param activations type of the kept activations
     */
    public static ModelShape feedForward(String name, int blocks, int dModel, int dFf, DType activations) {
        ArgumentCheck.atLeast("dFf", 1, dFf);
        return new ModelShape(
                name, blocks, dModel, 2L * dModel * dFf, 0, 0, 1, Bytes.of((long) dModel + dFf, activations.bytes()));
    }

    /**
     * Returns the shape of a {@link cs336.basics.TransformerLM}. The kept activations are those of {@link ModelMemory}
     * for one sequence of the full context with the configured attention, per token and rounded up.
     *
     * @param autocast type of the matmuls
     */
    public static ModelShape of(String name, TransformerConfig config, DType autocast) {
        long matrices = config.blockMatrixElements();
        long head = config.vocabularyMatrixElements();
        var memory = new ModelMemory(config, 1, autocast, DeviceKind.CUDA);
        return new ModelShape(
                name,
                config.numLayers(),
                config.dModel(),
                matrices,
                head,
                config.parameterCount() - config.numLayers() * matrices - head,
                2,
                new Bytes(MemoryInventory.bytes(memory.keptByBlock())).sharedBy(config.contextLength()));
    }

    /** Returns P, the number of parameters. */
    public long parameters() {
        return blocks * blockMatrices + headMatrix + otherParameters;
    }

    /**
     * Returns the FLOP of the forward pass: 2 per token and matrix element, without the two matmuls inside attention.
     */
    public Flop forward(Tokens tokens) {
        return new Flop(2.0 * tokens.count() * (blocks * blockMatrices + headMatrix));
    }

    /**
     * Returns the FLOP of forward and backward pass, three times those of the forward pass: the backward pass of a
     * matmul is two matmuls.
     */
    public Flop forwardBackward(Tokens tokens) {
        return forward(tokens).times(3);
    }

    /** Returns the activations of all blocks that are kept for the backward pass. */
    public Bytes kept(Tokens tokens) {
        return keptPerToken.times(blocks).times(tokens.count());
    }
}
