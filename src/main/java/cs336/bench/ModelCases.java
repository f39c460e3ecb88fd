package cs336.bench;

import cs336.basics.ModelEdition;
import cs336.basics.TransformerConfig;
import java.nio.file.Path;

/** Conversions between Transformer language models and the cases of a sweep. */
public final class ModelCases {
    private ModelCases() {}

    /**
     * Returns a case with the parameters size, year, batch, context, dtype and pass, and the model's configuration as
     * settings. The setting {@code device} is not set.
     */
    public static Case of(Class<? extends Workload> workload, ModelCase c) {
        return withModel(Case.of(workload, c.model().implementation()), c.model(), c.precision())
                .with("pass", c.pass());
    }

    /** Returns a case like {@link #of}, but without a pass, for measurements without a sweep. */
    public static Case measuredHere(ModelOptions.Model model, Precision precision) {
        return withModel(Case.measuredHere(model.implementation()), model, precision);
    }

    private static Case withModel(Case c, ModelOptions.Model model, Precision precision) {
        TransformerConfig config = model.config();
        return c.with("size", model.label())
                .with("year", config.edition().year())
                .with("batch", model.batch())
                .with("context", config.contextLength())
                .with("dtype", precision)
                .setting("d_model", config.dModel())
                .setting("d_ff", config.dFf())
                .setting("layers", config.numLayers())
                .setting("heads", config.numHeads())
                .setting("vocab", config.vocabSize())
                .setting("normalization", config.normalization())
                .setting("attention", config.attention())
                .setting("fusion", config.fusion());
    }

    /** Returns the configuration of the case's model. */
    public static TransformerConfig config(Case c) {
        return TransformerConfig.builder()
                .edition(ModelEdition.ofYear(c.integer("year")))
                .vocabSize(c.integer("vocab"))
                .contextLength(c.integer("context"))
                .dModel(c.integer("d_model"))
                .numLayers(c.integer("layers"))
                .numHeads(c.integer("heads"))
                .dFf(c.integer("d_ff"))
                .normalization(c.text("normalization"))
                .attention(c.text("attention"))
                .fusion(c.text("fusion"))
                .build();
    }

    /**
     * Returns the folder for the files of a case, such as {@code xl-256-fp32-forward}, in the folder given by its
     * setting {@code folder}. The name also contains the batch size unless it is that of the course (4 in 2025, 16 in
     * 2024), the year unless it is 2025, and the implementation unless it is plain.
     */
    public static Path folder(Case c) {
        String usualBatch = c.text("year").equals("2025") ? "4" : "16";
        String batch = c.text("batch").equals(usualBatch) ? "" : "-batch" + c.text("batch");
        String name = String.join("-", c.text("size") + batch, c.text("context"), c.text("dtype"), c.text("pass"));
        if (!c.text("year").equals("2025")) {
            name = c.text("year") + "-" + name;
        }
        if (!c.implementation().equals("plain")) {
            name = c.implementation() + "-" + name;
        }
        return Path.of(c.text("folder")).resolve(name);
    }
}
