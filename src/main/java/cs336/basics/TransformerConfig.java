package cs336.basics;

import cs336.checkpointing.CheckpointPolicy;

/**
 * The architecture of a {@link TransformerLM}. A {@link TransformerConfigBuilder} creates one from named settings:
 *
 * <pre>{@code
 * TransformerConfig config = TransformerConfig.builder().vocabSize(1_000).dModel(128).numHeads(4).dFf(512).build();
 * }</pre>
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
 * @param eps ε of the normalization, positive
 * @param ropeTheta θ, the base of the rotary frequencies in the 2025 model, positive
 * @param fusion name of the implementation of the model's memory-bound operations, see {@link Fuser}
 * @param checkpointing which activations are kept for the backward pass; affects memory and time, but not the results
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
        String attention,
        double eps,
        double ropeTheta,
        String fusion,
        CheckpointPolicy checkpointing) {

    /** The default base of the rotary frequencies. */
    public static final double ROPE_THETA = 10_000;

    /**
     * @throws IllegalArgumentException if a size is below 1, a name is unknown, H does not divide D as required, ε or θ
     *     is not positive, or there are more than 2⁶³ − 1 parameters
     */
    public TransformerConfig {
        if (edition == null) {
            throw new IllegalArgumentException("edition must not be null");
        }
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
        Fuser.named(fusion);
        requirePositive("eps", eps);
        requirePositive("ropeTheta", ropeTheta);
        try {
            parameterCount(edition, vocabSize, contextLength, dModel, numLayers, dFf, normalization);
        } catch (ArithmeticException e) {
            throw new IllegalArgumentException("dModel " + dModel + ", dFf " + dFf + " and numLayers " + numLayers
                    + " give more than 2^63 - 1 parameters");
        }
        if (checkpointing == null) {
            throw new IllegalArgumentException("checkpointing must not be null");
        }
    }

    /** Returns a builder with the settings of the small 2025 model. */
    public static TransformerConfigBuilder builder() {
        return ModelSize.SMALL.config().toBuilder();
    }

    /** Returns a builder with the settings of this configuration. */
    public TransformerConfigBuilder toBuilder() {
        return new TransformerConfigBuilder(this);
    }

    /**
     * Checks a value and returns it.
     *
     * @throws IllegalArgumentException if it is not positive and finite
     */
    public static double requirePositive(String name, double value) {
        if (!(value > 0 && Double.isFinite(value))) {
            throw new IllegalArgumentException(name + " must be positive and finite, not " + value);
        }
        return value;
    }

    /**
     * Checks a size.
     *
     * @throws IllegalArgumentException if the value is below 1
     */
    public static void requirePositive(String name, int value) {
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
        return toBuilder().normalization(name).build();
    }

    /** Returns this configuration with another attention implementation. */
    public TransformerConfig withAttention(String name) {
        return toBuilder().attention(name).build();
    }

    /** Returns this configuration with another implementation of the memory-bound operations. */
    public TransformerConfig withFusion(String name) {
        return toBuilder().fusion(name).build();
    }

    /** Returns this configuration with another policy of activation checkpointing. */
    public TransformerConfig withCheckpointing(CheckpointPolicy policy) {
        return toBuilder().checkpointing(policy).build();
    }

    /** Returns the number of elements of all matrices in one block: 4 D × D in attention, and 2 or 3 D × F. */
    public long blockMatrixElements() {
        return 4L * dModel * dModel + (long) edition.feedForwardMatrices() * dModel * dFf;
    }

    /** Returns the number of elements of a V × D matrix: the embeddings, or the head. */
    public long vocabularyMatrixElements() {
        return (long) vocabSize * dModel;
    }

    /** Returns the number of trainable parameters; a tied output head counts once. */
    public long parameterCount() {
        return parameterCount(edition, vocabSize, contextLength, dModel, numLayers, dFf, normalization);
    }

    /** @throws ArithmeticException if the number is above 2⁶³ − 1 */
    private static long parameterCount(
            ModelEdition edition,
            int vocabSize,
            int contextLength,
            int dModel,
            int numLayers,
            int dFf,
            String normalization) {
        boolean is2024 = edition == ModelEdition.SPRING_2024;
        long norm = Normalization.named(normalization).parametersPerFeature();
        long embeddingRows = is2024 ? (long) vocabSize + contextLength : 2L * vocabSize;
        long feedForwardRows = (long) edition.feedForwardMatrices() * dFf;
        long blockRows = 4L * dModel + feedForwardRows + 2 * norm; // attention, feed-forward layer, norms
        long rows = Math.addExact(embeddingRows + norm, Math.multiplyExact(numLayers, blockRows));
        return Math.multiplyExact(rows, dModel);
    }
}
