package cs336.scaling;

import cs336.basics.ModelEdition;
import cs336.basics.TransformerConfig;
import cs336.bench.ArgumentCheck;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import cs336.units.Bytes;
import cs336.units.Flop;
import cs336.units.Tokens;

/**
 * What of a model counts for memory, operations and traffic: equal blocks of matrices, and the rest.
 *
 * @param name for tables
 * @param blocks L
 * @param dModel D, numbers a token in the stream between blocks
 * @param blockMatrices numbers in the matrices of one block
 * @param headMatrix numbers in a matrix after the blocks that each token is multiplied with; 0 without a head
 * @param otherParameters learned numbers that no token is multiplied with: tables, gains
 * @param pairs pairs of matrices in a block, first split by columns, then by rows, under tensor parallelism: one a
 *     feed-forward layer, one more with attention
 * @param keptPerToken what one block keeps of each token for its backward pass, all activations, nothing recomputed
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

    /** @throws IllegalArgumentException if a size is below 1 */
    public ModelShape {
        ArgumentCheck.atLeast("blocks", 1, blocks);
        ArgumentCheck.atLeast("dModel", 1, dModel);
        ArgumentCheck.atLeast("pairs", 1, pairs);
        if (blockMatrices < 1) {
            throw new IllegalArgumentException("blockMatrices must be at least 1, not " + blockMatrices);
        }
    }

    /**
     * Blocks of two linear layers, D → F → D, without activation function, attention, embeddings and head. Each layer
     * keeps its input for the gradient of its weight: D and F numbers a token.
     *
     * @param activations type of what is kept
     */
    public static ModelShape feedForward(String name, int blocks, int dModel, int dFf, DType activations) {
        ArgumentCheck.atLeast("dFf", 1, dFf);
        return new ModelShape(
                name, blocks, dModel, 2L * dModel * dFf, 0, 0, 1, Bytes.of((long) dModel + dFf, activations.bytes()));
    }

    /**
     * One of our own models. What a block keeps is {@link ModelMemory}'s count for one sequence of the full context,
     * attention in plain operations, a token's share of it rounded up.
     *
     * @param autocast type of matrix products
     */
    public static ModelShape of(String name, TransformerConfig config, DType autocast) {
        long d = config.dModel();
        long matrices = 4 * d * d + (config.form() == ModelEdition.SPRING_2024 ? 2 : 3) * d * config.dFf();
        long head = config.vocabSize() * d;
        long kept = new ModelMemory(config, 1, autocast, DeviceKind.CUDA)
                .keptByBlock().stream().mapToLong(ModelMemory.Copy::bytes).sum();
        return new ModelShape(
                name,
                config.numLayers(),
                config.dModel(),
                matrices,
                head,
                config.parameterCount() - config.numLayers() * matrices - head,
                2,
                new Bytes(kept).sharedBy(config.contextLength()));
    }

    /** P, all learned numbers. */
    public long parameters() {
        return blocks * blockMatrices + headMatrix + otherParameters;
    }

    /**
     * Operations of a forward pass in products with weights: two a token and weight. Attention's own products are not
     * counted.
     */
    public Flop forward(Tokens tokens) {
        return new Flop(2.0 * tokens.count() * (blocks * blockMatrices + headMatrix));
    }

    /** Operations of forward and backward pass: the gradient of each product takes two. */
    public Flop forwardBackward(Tokens tokens) {
        return forward(tokens).times(3);
    }

    /** What all blocks keep of some tokens for the backward pass. */
    public Bytes kept(Tokens tokens) {
        return keptPerToken.times(blocks).times(tokens.count());
    }
}
