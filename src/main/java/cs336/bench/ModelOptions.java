package cs336.bench;

import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.basics.TransformerConfig;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import picocli.CommandLine.Option;

/** The options of a command that runs Transformer language models: which ones, on batches of what size. */
public final class ModelOptions {
    @Option(
            names = "--size",
            split = ",",
            defaultValue = "small",
            paramLabel = "<size>",
            description = "small, medium, large, xl, 2.7B, or all. Default: ${DEFAULT-VALUE}")
    private List<String> sizes;

    @Option(
            names = "--year",
            defaultValue = "2025",
            paramLabel = "<year>",
            description = "whose form of the model, and whose settings below: 2025 or 2024. Default: ${DEFAULT-VALUE}")
    private int year;

    @Option(names = "--batch", paramLabel = "<n>", description = "sequences a step. Default: 4 (2024: 16)")
    private Integer batch;

    @Option(
            names = "--context",
            split = ",",
            paramLabel = "<n>",
            description = "tokens a sequence. Default: 256 (2024: 128)")
    private List<Integer> contexts;

    @Option(
            names = "--normalization",
            split = ",",
            defaultValue = "rmsnorm",
            paramLabel = "<name>",
            description = "rmsnorm (plain operations), layernorm … Default: ${DEFAULT-VALUE}")
    private List<String> normalizations;

    @Option(
            names = "--attention",
            split = ",",
            defaultValue = "plain",
            paramLabel = "<name>",
            description = "plain (all scores stored), flash (none), sdpa (PyTorch's own). Default: ${DEFAULT-VALUE}")
    private List<String> attentions;

    @Option(names = "--d-model", paramLabel = "<n>", description = "width of the model, in place of the size's")
    private Integer dModel;

    @Option(
            names = "--d-ff",
            paramLabel = "<n>",
            description = "width of the feed-forward layer. Default: the size's, or 4 times --d-model")
    private Integer dFf;

    @Option(names = "--layers", paramLabel = "<n>", description = "number of layers, in place of the size's")
    private Integer layers;

    @Option(names = "--heads", paramLabel = "<n>", description = "attention heads a layer, in place of the size's")
    private Integer heads;

    @Option(names = "--vocab", paramLabel = "<n>", description = "size of the vocabulary. Default: 10000")
    private Integer vocab;

    /**
     * A model that was asked for.
     *
     * @param label its name in the table of sizes, or what makes it where it has none
     * @param config its shape
     * @param batch sequences a step
     */
    public record Model(String label, TransformerConfig config, int batch) {
        /** {@code plain} for RMSNorm and attention from plain operations; otherwise what takes their place. */
        public String implementation() {
            boolean plainNorm = config.normalization().equals("rmsnorm");
            boolean plainAttention = config.attention().equals("plain");
            if (plainNorm) return config.attention();
            return plainAttention ? config.normalization() : config.normalization() + "+" + config.attention();
        }
    }

    /**
     * Whose form of the model is run.
     *
     * @throws IllegalArgumentException if there is none of that year
     */
    ModelEdition form() {
        return ModelEdition.ofYear(year);
    }

    /**
     * Every combination of the lists, checked. From the one that varies slowest: sizes, contexts, normalisations,
     * attentions.
     *
     * @throws IllegalArgumentException if an option is wrong
     */
    public List<Model> models() {
        ModelEdition form = form();
        boolean is2024 = form == ModelEdition.SPRING_2024;
        int b = ArgumentCheck.atLeast("--batch", 1, batch == null ? (is2024 ? 16 : 4) : batch);
        List<Integer> ts = contexts == null ? List.of(is2024 ? 128 : 256) : contexts;
        ts.forEach(t -> ArgumentCheck.atLeast("--context", 1, t));
        var models = new ArrayList<Model>();
        for (ModelSize size : sizes()) {
            for (int t : ts) {
                TransformerConfig plain = config(size.config(form, t));
                String label = label(size, plain);
                for (String normalization : normalizations) {
                    for (String attention : attentions) {
                        TransformerConfig config =
                                plain.withNormalization(normalization).withAttention(attention);
                        models.add(new Model(label, config, b));
                    }
                }
            }
        }
        return models;
    }

    private List<ModelSize> sizes() {
        return sizes.equals(List.of("all"))
                ? Arrays.asList(ModelSize.values())
                : sizes.stream().map(ModelSize::parse).toList();
    }

    private TransformerConfig config(TransformerConfig c) {
        int width = ArgumentCheck.atLeast("--d-model", 1, dModel == null ? c.dModel() : dModel);
        int inner = ArgumentCheck.atLeast("--d-ff", 1, dFf != null ? dFf : dModel != null ? 4L * width : c.dFf());
        int depth = ArgumentCheck.atLeast("--layers", 1, layers == null ? c.numLayers() : layers);
        int h = ArgumentCheck.atLeast("--heads", 1, heads == null ? c.numHeads() : heads);
        int v = ArgumentCheck.atLeast("--vocab", 1, vocab == null ? c.vocabSize() : vocab);
        if (width % h != 0) {
            throw new IllegalArgumentException("--heads " + h + " does not divide --d-model " + width);
        }
        return new TransformerConfig(
                c.edition(), v, c.contextLength(), width, depth, h, inner, c.normalization(), c.attention());
    }

    /** The size's name, or what makes the model where it has none. */
    private static String label(ModelSize size, TransformerConfig c) {
        return c.equals(size.config(c.edition(), c.contextLength()))
                ? size.label()
                : "d%s-ff%s-l%s-h%s-v%s".formatted(c.dModel(), c.dFf(), c.numLayers(), c.numHeads(), c.vocabSize());
    }
}
