package cs336.basics;

/** The configuration of a model whose training steps take milliseconds. */
public final class TinyConfig {
    private TinyConfig() {}

    /** Returns the configuration in the default edition. */
    public static TransformerConfig create() {
        return sizes().build();
    }

    /** Returns the configuration in an edition. */
    public static TransformerConfig of(ModelEdition edition) {
        return sizes().edition(edition).build();
    }

    private static TransformerConfigBuilder sizes() {
        return TransformerConfig.builder()
                .vocabSize(50)
                .contextLength(16)
                .dModel(32)
                .numLayers(2)
                .numHeads(2)
                .dFf(64);
    }
}
