package cs336.bench;

import cs336.basics.ModelEdition;
import cs336.basics.TransformerConfig;
import java.nio.file.Path;

/** What cases of Transformer language models have in common, whatever is measured of them. */
public final class ModelCases {
    private ModelCases() {}

    /** The case of a model, by its size, year, batch, context, dtype and pass; {@code device} is still to be set. */
    public static Case of(Class<? extends Workload> workload, ModelCase c) {
        return described(Case.of(workload, c.model().implementation()), c.model(), c.precision())
                .with("pass", c.pass());
    }

    /** The same without a pass, to be stored by its measurer without a sweep. */
    public static Case measuredHere(ModelOptions.Model model, Precision precision) {
        return described(Case.measuredHere(model.implementation()), model, precision);
    }

    private static Case described(Case c, ModelOptions.Model model, Precision precision) {
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
                .setting("attention", config.attention());
    }

    /** The model's shape. */
    public static TransformerConfig config(Case c) {
        return new TransformerConfig(
                ModelEdition.ofYear(c.integer("year")),
                c.integer("vocab"),
                c.integer("context"),
                c.integer("d_model"),
                c.integer("layers"),
                c.integer("heads"),
                c.integer("d_ff"),
                c.text("normalization"),
                c.text("attention"));
    }

    /**
     * Where a case leaves its files: in its setting {@code folder} a folder such as {@code xl-256-fp32-forward}, which
     * names year and implementation too where they are not the usual ones.
     */
    public static Path folder(Case c) {
        String name = String.join("-", c.text("size"), c.text("context"), c.text("dtype"), c.text("pass"));
        if (!c.text("year").equals("2025")) name = c.text("year") + "-" + name;
        if (!c.implementation().equals("plain")) name = c.implementation() + "-" + name;
        return Path.of(c.text("folder")).resolve(name);
    }
}
