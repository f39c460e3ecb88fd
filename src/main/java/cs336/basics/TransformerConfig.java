package cs336.basics;

/**
 * The architecture of a {@link TransformerLM}.
 *
 * @param edition the model of 2024 or 2025
 * @param vocabSize V, number of tokens
 * @param contextLength the maximum sequence length in tokens
 * @param dModel D, width of the residual stream
 * @param numLayers number of Transformer blocks
 * @param numHeads H, number of attention heads per block; must divide D; in the 2025 model D ÷ H must be even
 * @param dFf F, inner width of the feed-forward layer
 * @param normalization name of the normalization, see {@link Normalization#named}
 * @param attention name of the attention, see {@link Attention#named}
 */
public record TransformerConfig(
        ModelEdition edition,
        int vocabSize,
        int contextLength,
        int dModel,
        int numLayers,
        int numHeads,
        int dFf,
        String normalization,
        String attention) {

    /** Base of the rotary frequencies. */
    public static final double ROPE_THETA = 10_000;

    /** @throws IllegalArgumentException if a size is below 1, a name is unknown, or H does not divide D as required */
    public TransformerConfig {
        requirePositive("vocabSize", vocabSize);
        requirePositive("contextLength", contextLength);
        requirePositive("dModel", dModel);
        requirePositive("numLayers", numLayers);
        requirePositive("numHeads", numHeads);
        requirePositive("dFf", dFf);
        if (dModel % numHeads != 0) {
            throw new IllegalArgumentException("numHeads " + numHeads + " does not divide dModel " + dModel);
        }
        if (edition == ModelEdition.SPRING_2025 && dModel / numHeads % 2 != 0) {
            throw new IllegalArgumentException("numHeads " + numHeads + " gives heads of odd width " + dModel / numHeads
                    + "; rotary position embedding needs an even width");
        }
        Normalization.named(normalization);
        Attention.named(attention);
    }

    static void requirePositive(String name, int value) {
        if (value < 1) {
            throw new IllegalArgumentException(name + " must be at least 1, not " + value);
        }
    }

    /** Returns d, the width of one head. */
    public int headDim() {
        return dModel / numHeads;
    }

    /** Returns this configuration with another normalization. */
    public TransformerConfig withNormalization(String name) {
        return new TransformerConfig(
                edition, vocabSize, contextLength, dModel, numLayers, numHeads, dFf, name, attention);
    }

    /** Returns this configuration with another attention implementation. */
    public TransformerConfig withAttention(String name) {
        return new TransformerConfig(
                edition, vocabSize, contextLength, dModel, numLayers, numHeads, dFf, normalization, name);
    }

    /** Returns the number of trainable parameters; a tied output head counts once. */
    public long parameterCount() {
        boolean is2024 = edition == ModelEdition.SPRING_2024;
        long embeddings = (long) vocabSize * dModel * (is2024 ? 1 : 2) + (is2024 ? (long) contextLength * dModel : 0);
        long attentionWeights = 4L * dModel * dModel;
        long feedForwardWeights = (is2024 ? 2L : 3L) * dModel * dFf;
        long norm = (long) Normalization.named(normalization).parametersPerFeature() * dModel;
        return embeddings + numLayers * (attentionWeights + feedForwardWeights + 2 * norm) + norm;
    }
}
