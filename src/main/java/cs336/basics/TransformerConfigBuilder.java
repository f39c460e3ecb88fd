package cs336.basics;

import cs336.checkpointing.CheckpointPolicy;

/**
 * Named settings of a {@link TransformerConfig}. The settings that are not set keep the values of the configuration
 * from which the builder was created. They are checked together by {@link #build}.
 */
public final class TransformerConfigBuilder {
    private ModelEdition edition;
    private int vocabSize;
    private int contextLength;
    private int dModel;
    private int numLayers;
    private int numHeads;
    private int dFf;
    private String normalization;
    private String attention;
    private double eps;
    private double ropeTheta;
    private String fusion;
    private CheckpointPolicy checkpointing;

    TransformerConfigBuilder(TransformerConfig config) {
        edition = config.edition();
        vocabSize = config.vocabSize();
        contextLength = config.contextLength();
        dModel = config.dModel();
        numLayers = config.numLayers();
        numHeads = config.numHeads();
        dFf = config.dFf();
        normalization = config.normalization();
        attention = config.attention();
        eps = config.eps();
        ropeTheta = config.ropeTheta();
        fusion = config.fusion();
        checkpointing = config.checkpointing();
    }

    /** Sets the edition, the model of 2024 or 2025. */
    public TransformerConfigBuilder edition(ModelEdition modelEdition) {
        edition = modelEdition;
        return this;
    }

    /** Sets the number of tokens in the vocabulary. */
    public TransformerConfigBuilder vocabSize(int tokens) {
        vocabSize = tokens;
        return this;
    }

    /** Sets the maximum sequence length in tokens. */
    public TransformerConfigBuilder contextLength(int tokens) {
        contextLength = tokens;
        return this;
    }

    /** Sets the width of the residual stream. */
    public TransformerConfigBuilder dModel(int width) {
        dModel = width;
        return this;
    }

    /** Sets the number of Transformer blocks. */
    public TransformerConfigBuilder numLayers(int blocks) {
        numLayers = blocks;
        return this;
    }

    /** Sets the number of attention heads per block. */
    public TransformerConfigBuilder numHeads(int heads) {
        numHeads = heads;
        return this;
    }

    /** Sets the inner width of the feed-forward layer. */
    public TransformerConfigBuilder dFf(int width) {
        dFf = width;
        return this;
    }

    /** Sets the name of the normalization, see {@link Normalization#named}. */
    public TransformerConfigBuilder normalization(String name) {
        normalization = name;
        return this;
    }

    /** Sets the name of the attention, see {@link Attention#named}. */
    public TransformerConfigBuilder attention(String name) {
        attention = name;
        return this;
    }

    /** Sets ε of the normalization. */
    public TransformerConfigBuilder eps(double epsilon) {
        eps = epsilon;
        return this;
    }

    /** Sets θ, the base of the rotary frequencies. */
    public TransformerConfigBuilder ropeTheta(double theta) {
        ropeTheta = theta;
        return this;
    }

    /** Sets the name of the implementation of the memory-bound operations, see {@link Fuser#named}. */
    public TransformerConfigBuilder fusion(String name) {
        fusion = name;
        return this;
    }

    /** Sets the policy that selects the activations kept for the backward pass. */
    public TransformerConfigBuilder checkpointing(CheckpointPolicy policy) {
        checkpointing = policy;
        return this;
    }

    /**
     * Returns the configuration.
     *
     * @throws IllegalArgumentException if the settings are invalid, see {@link TransformerConfig}
     */
    public TransformerConfig build() {
        return new TransformerConfig(
                edition,
                vocabSize,
                contextLength,
                dModel,
                numLayers,
                numHeads,
                dFf,
                normalization,
                attention,
                eps,
                ropeTheta,
                fusion,
                checkpointing);
    }
}
