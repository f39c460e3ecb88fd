package cs336.bench;

import cs336.basics.Fuser;
import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.basics.RotaryEmbedding;
import cs336.basics.TransformerConfig;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import picocli.CommandLine.Option;

/** The options that select Transformer language models and their batch size. */
public final class ModelOptions {
    private static final Pattern DIMENSIONS = Pattern.compile("d(\\d+)-ff(\\d+)-l(\\d+)-h(\\d+)-v(\\d+)");

    @Option(
            names = "--size",
            split = ",",
            defaultValue = "small",
            paramLabel = "<size>",
            description = "small, medium, large, xl, 2.7B, or all")
    private List<String> sizes;

    @Option(
            names = "--year",
            defaultValue = "2025",
            paramLabel = "<year>",
            description =
                    "edition of the course, 2025 or 2024: it sets the model's architecture and the defaults below")
    private int year;

    @Option(
            names = "--batch",
            paramLabel = "<n>",
            description = "sequences per batch, of each rank if there are several. Default: 4 (2024: 16)")
    private Integer batch;

    @Option(
            names = "--context",
            split = ",",
            paramLabel = "<n>",
            description = "tokens per sequence. Default: 256 (2024: 128)")
    private List<Integer> contexts;

    @Option(
            names = "--normalization",
            split = ",",
            defaultValue = "rmsnorm",
            paramLabel = "<name>",
            description =
                    "rmsnorm (elementary PyTorch operations), rmsnorm-fused (our kernels), rmsnorm-compiled (generated kernels),"
                            + " layernorm")
    private List<String> normalizations;

    @Option(
            names = "--attention",
            split = ",",
            defaultValue = "plain",
            paramLabel = "<name>",
            description =
                    "plain (stores all attention scores), plain-compiled (the same in generated kernels), flash (stores"
                            + " none), sdpa (PyTorch's scaled_dot_product_attention), or a variant of flash, see './cs336 flash"
                            + " --help'")
    private List<String> attentions;

    @Option(
            names = "--fusion",
            defaultValue = Fuser.NONE,
            paramLabel = "<name>",
            description = "implementation of the elementwise functions of SwiGLU and RoPE and of linear layers with the"
                    + " same input: none (one kernel per PyTorch operator) or compiled (fused kernels)")
    private String fusion;

    @Option(names = "--d-model", paramLabel = "<n>", description = "width of the model. Default: from --size")
    private Integer dModel;

    @Option(
            names = "--d-ff",
            paramLabel = "<n>",
            description = "width of the feed-forward layer. Default: from --size, or 4 times --d-model if that is set")
    private Integer dFf;

    @Option(names = "--layers", paramLabel = "<n>", description = "number of Transformer blocks. Default: from --size")
    private Integer layers;

    @Option(names = "--heads", paramLabel = "<n>", description = "attention heads per block. Default: from --size")
    private Integer heads;

    @Option(names = "--vocab", paramLabel = "<n>", description = "size of the vocabulary. Default: 10000")
    private Integer vocab;

    /**
     * A model to measure.
     *
     * @param label the name of its size, or a list of its dimensions if options change them
     * @param config its configuration
     * @param batch sequences in a batch
     */
    public record Model(String label, TransformerConfig config, int batch) {
        private static final String PLAIN = "plain";
        private static final Set<String> DEFAULTS = Set.of("rmsnorm", PLAIN, Fuser.NONE);

        /**
         * Returns the value of the column {@code implementation}: the names of normalization, attention and fusion,
         * joined by {@code +}, except for the defaults {@code rmsnorm}, {@code plain} and {@code none}; {@code plain}
         * if all are defaults.
         */
        public String implementation() {
            String names = Stream.of(config.normalization(), config.attention(), config.fusion())
                    .filter(name -> !DEFAULTS.contains(name))
                    .collect(Collectors.joining("+"));
            return names.isEmpty() ? PLAIN : names;
        }
    }

    /**
     * Returns the given value, or the default of the chosen edition if it is null.
     *
     * @throws IllegalArgumentException if there is no edition of the chosen year
     */
    <T> T orDefault(T value, T default2025, T default2024) {
        T fallback = edition() == ModelEdition.SPRING_2024 ? default2024 : default2025;
        return value == null ? fallback : value;
    }

    private ModelEdition edition() {
        return ModelEdition.ofYear(year);
    }

    /**
     * Returns every combination of the lists. Sizes vary slowest, then contexts, normalizations, and attentions.
     *
     * @throws IllegalArgumentException if an option is invalid
     */
    public List<Model> models() {
        int batchSize = ArgumentCheck.atLeast("--batch", 1, orDefault(batch, 4, 16));
        List<Integer> ts = orDefault(contexts, List.of(256), List.of(128));
        for (int t : ts) {
            ArgumentCheck.atLeast("--context", 1, t);
            if ((long) batchSize * t > Integer.MAX_VALUE) {
                throw new IllegalArgumentException("--batch " + batchSize + " × --context " + t + " must be at most "
                        + Integer.MAX_VALUE + " tokens");
            }
        }
        var models = new ArrayList<Model>();
        for (ModelSize size : sizes()) {
            for (int t : ts) {
                TransformerConfig plain = config(size.config(edition(), 1), t);
                String label = label(size, plain);
                for (String normalization : normalizations) {
                    for (String attention : attentions) {
                        TransformerConfig config = plain.withNormalization(normalization)
                                .withAttention(attention)
                                .withFusion(fusion);
                        models.add(new Model(label, config, batchSize));
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

    /** Returns the configuration of a size with the dimensions that the user has set. */
    private TransformerConfig config(TransformerConfig c, int context) {
        int width = positive("--d-model", dModel, c.dModel());
        int inner = positive("--d-ff", dFf, dModel != null ? 4L * width : c.dFf());
        int depth = positive("--layers", layers, c.numLayers());
        int h = positive("--heads", heads, c.numHeads());
        int v = positive("--vocab", vocab, c.vocabSize());
        if (width % h != 0) {
            throw new IllegalArgumentException("--heads " + h + " does not divide --d-model " + width);
        }
        if (c.edition() == ModelEdition.SPRING_2025) {
            if (width / h % 2 != 0) {
                throw new IllegalArgumentException("--heads " + h + " must give heads of even width, not " + width / h
                        + ", because of the rotary position embedding");
            }
            if (!RotaryEmbedding.hasTable(context, width / h)) {
                throw new IllegalArgumentException("--context " + context + " is too long for the rotary position"
                        + " embedding of heads of width " + width / h);
            }
        }
        return c.toBuilder()
                .vocabSize(v)
                .contextLength(context)
                .dModel(width)
                .numLayers(depth)
                .numHeads(h)
                .dFf(inner)
                .build();
    }

    private static int positive(String option, Integer given, long fallback) {
        return ArgumentCheck.atLeast(option, 1, given == null ? fallback : given);
    }

    /**
     * Returns the configuration that a stored {@link Model#label} describes.
     *
     * @throws IllegalArgumentException if the label is neither a size nor a list of dimensions
     */
    public static TransformerConfig configOf(String label, ModelEdition edition, int contextLength) {
        Matcher dimensions = DIMENSIONS.matcher(label);
        if (!dimensions.matches()) {
            return ModelSize.parse(label).config(edition, contextLength);
        }
        return ModelSize.SMALL.config(edition, contextLength).toBuilder()
                .dModel(Integer.parseInt(dimensions.group(1)))
                .dFf(Integer.parseInt(dimensions.group(2)))
                .numLayers(Integer.parseInt(dimensions.group(3)))
                .numHeads(Integer.parseInt(dimensions.group(4)))
                .vocabSize(Integer.parseInt(dimensions.group(5)))
                .build();
    }

    private static String label(ModelSize size, TransformerConfig c) {
        return c.equals(size.config(c.edition(), c.contextLength()))
                ? size.label()
                : "d%s-ff%s-l%s-h%s-v%s".formatted(c.dModel(), c.dFf(), c.numLayers(), c.numHeads(), c.vocabSize());
    }
}
