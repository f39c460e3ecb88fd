package cs336.bench;

import cs336.basics.Form;
import cs336.basics.ModelSize;
import cs336.basics.TransformerConfig;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Times Transformer language models: every combination of the given sizes, contexts, dtypes, passes and warm-ups. */
@Command(
        name = "benchmark",
        description = {
            "Times forward pass, backward pass and optimizer step of Transformer language models.",
            "Every combination of the lists below is one case and runs in a process of its own; its numbers are stored"
                    + " before the next one starts. Run the same line again to go on after a stop."
        },
        sortOptions = false,
        mixinStandardHelpOptions = true,
        footerHeading = "%nExamples:%n",
        footer = {
            "  A tiny model, in seconds, on any laptop:",
            "    cs336 benchmark --d-model 64 --layers 2 --heads 2 --context 32",
            "  All sizes as in the course of 2025, then as in that of 2024:",
            "    cs336 benchmark --size all --context 128,256,512,1024",
            "    cs336 benchmark --size all --year 2024",
            "  Forward and backward passes in full and in mixed precision:",
            "    cs336 benchmark --size all --dtype fp32,tf32,bf16 --pass forward-backward --problem mixed",
            "  What the first steps cost, with every single step kept:",
            "    cs336 benchmark --size all --warmup 0,1,2 --keep-steps --problem warmup",
            "",
            "Exit codes: 0 all cases measured (out of memory is a result), 1 a case failed, 2 wrong use."
        })
public final class BenchmarkCommand implements Callable<Integer> {
    private static final double GB = 1e9;

    @Spec
    private CommandSpec spec;

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
            names = "--warmup",
            split = ",",
            paramLabel = "<n>",
            description = "steps before timing begins. Default: 5 (2024: 1)")
    private List<Integer> warmups;

    @Option(names = "--steps", paramLabel = "<n>", description = "timed steps. Default: 10 (2024: 5)")
    private Integer steps;

    @Option(
            names = "--pass",
            split = ",",
            defaultValue = "forward,forward-backward,step",
            paramLabel = "<pass>",
            description = "forward (no graph kept), forward-backward, step (with AdamW). Default: all three")
    private List<String> passes;

    @Option(
            names = "--dtype",
            split = ",",
            defaultValue = "fp32",
            paramLabel = "<dtype>",
            description = "fp32 (TF32 off), tf32 (fp32 tensors, TF32 products), bf16 (autocast), fp16 (autocast, scaled"
                    + " loss). Default: ${DEFAULT-VALUE}")
    private List<String> dtypes;

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

    @Mixin
    private final SweepOptions sweep = new SweepOptions("benchmarking_script");

    @Override
    public Integer call() throws IOException, InterruptedException {
        try {
            List<ModelCase> cases = cases();
            return sweep.run(spec, survey -> {
                for (ModelCase c : cases) c.requireFits(survey);
                return cases.stream().map(ModelCase::toCase).toList();
            });
        } catch (IllegalArgumentException e) {
            throw new ParameterException(spec.commandLine(), e.getMessage(), e);
        }
    }

    /**
     * Every combination, checked. From the list that varies slowest: sizes, contexts, normalisations, attentions, dtypes,
     * warm-ups, passes.
     */
    private List<ModelCase> cases() {
        Form form = Form.ofYear(year);
        boolean is2024 = form == Form.SPRING_2024;
        int b = Argument.atLeast("--batch", 1, batch == null ? (is2024 ? 16 : 4) : batch);
        int n = Argument.atLeast("--steps", 1, steps == null ? (is2024 ? 5 : 10) : steps);
        List<Integer> ts = contexts == null ? List.of(is2024 ? 128 : 256) : contexts;
        List<Integer> ws = warmups == null ? List.of(is2024 ? 1 : 5) : warmups;
        ts.forEach(t -> Argument.atLeast("--context", 1, t));
        ws.forEach(w -> Argument.atLeast("--warmup", 0, w));
        List<Precision> precisions = dtypes.stream().map(Precision::parse).toList();
        List<Pass> ps = passes.stream().map(Pass::parse).toList();
        var cases = new ArrayList<ModelCase>();
        for (ModelSize size : sizes()) {
            for (int t : ts) {
                TransformerConfig plain = config(size.config(form, t));
                String label = label(size, plain);
                for (String normalization : normalizations) {
                    for (String attention : attentions) {
                        TransformerConfig config =
                                plain.withNormalization(normalization).withAttention(attention);
                        for (Precision precision : precisions) {
                            for (int w : ws) {
                                for (Pass pass : ps) {
                                    cases.add(new ModelCase(label, config, b, precision, pass, w, n));
                                }
                            }
                        }
                    }
                }
            }
        }
        return cases;
    }

    private List<ModelSize> sizes() {
        return sizes.equals(List.of("all"))
                ? Arrays.asList(ModelSize.values())
                : sizes.stream().map(ModelSize::parse).toList();
    }

    private TransformerConfig config(TransformerConfig c) {
        int width = Argument.atLeast("--d-model", 1, dModel == null ? c.dModel() : dModel);
        int inner = Argument.atLeast("--d-ff", 1, dFf != null ? dFf : dModel != null ? 4L * width : c.dFf());
        int depth = Argument.atLeast("--layers", 1, layers == null ? c.numLayers() : layers);
        int h = Argument.atLeast("--heads", 1, heads == null ? c.numHeads() : heads);
        int v = Argument.atLeast("--vocab", 1, vocab == null ? c.vocabSize() : vocab);
        if (width % h != 0) {
            throw new IllegalArgumentException("--heads " + h + " does not divide --d-model " + width);
        }
        return new TransformerConfig(
                c.form(), v, c.contextLength(), width, depth, h, inner, c.normalization(), c.attention());
    }

    /** The size's name, or what makes the model where it has none. */
    private static String label(ModelSize size, TransformerConfig c) {
        return c.equals(size.config(c.form(), c.contextLength()))
                ? size.label()
                : "d%s-ff%s-l%s-h%s-v%s".formatted(c.dModel(), c.dFf(), c.numLayers(), c.numHeads(), c.vocabSize());
    }

    /** A case before it becomes text. */
    private record ModelCase(
            String label, TransformerConfig config, int batch, Precision precision, Pass pass, int warmup, int steps) {
        Case toCase() {
            return BenchmarkWorkload.of(label, config, batch, precision, pass, warmup, steps);
        }

        /** What is certain to be needed must be there; whether activations fit too, the run will show. */
        void requireFits(Survey survey) {
            long needed = config.parameterCount() * Float.BYTES * pass.copiesOfParameters();
            if (needed > survey.availableBytes()) {
                throw new IllegalArgumentException(String.format(
                        Locale.ROOT,
                        "too little memory: --size %s --pass %s needs %.1f GB for %s alone, and %s has %.1f GB available",
                        label,
                        pass,
                        needed / GB,
                        pass == Pass.FORWARD
                                ? "parameters"
                                : pass == Pass.STEP
                                        ? "parameters, gradients and optimizer state"
                                        : "parameters and gradients",
                        survey.device(),
                        survey.availableBytes() / GB));
            }
        }
    }
}
