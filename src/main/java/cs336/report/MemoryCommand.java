package cs336.report;

import cs336.basics.Form;
import cs336.basics.ModelSize;
import cs336.basics.TransformerConfig;
import cs336.bench.Argument;
import cs336.bench.Case;
import cs336.bench.Precision;
import cs336.bench.Survey;
import cs336.bench.SweepOptions;
import cs336.profile.MemoryPass;
import cs336.profile.MemoryTimeline;
import cs336.profile.MemoryWorkload;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
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

/** Records the memory of Transformer language models: every combination of the given sizes, contexts, dtypes and passes. */
@Command(
        name = "memory",
        description = {
            "Records every allocation of Transformer language models: their peak and what it holds, beside what is predicted.",
            "Every combination of the lists below is one case and runs in a process of its own: the model is built and the"
                    + " pass is run twice. Each case leaves timeline.csv, timeline.svg, largest.csv and memory_snapshot.pickle in"
                    + " a folder of its name; https://pytorch.org/memory_viz opens the last."
        },
        sortOptions = false,
        mixinStandardHelpOptions = true,
        footerHeading = "%nExamples:%n",
        footer = {
            "  A tiny model, in seconds, on any laptop:",
            "    cs336 memory --d-model 64 --layers 2 --heads 2 --context 32",
            "  The largest model as in the course of 2025:",
            "    cs336 memory --size 2.7B --context 128,256,512 --dtype fp32,bf16",
            "",
            "Exit codes: 0 all cases measured (out of memory is a result), 1 a case failed, 2 wrong use."
        })
public final class MemoryCommand implements Callable<Integer> {
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

    @Option(names = "--batch", paramLabel = "<n>", description = "sequences a pass. Default: 4 (2024: 16)")
    private Integer batch;

    @Option(
            names = "--context",
            split = ",",
            paramLabel = "<n>",
            description = "tokens a sequence. Default: 256 (2024: 128)")
    private List<Integer> contexts;

    @Option(
            names = "--pass",
            split = ",",
            defaultValue = "forward,forward-graph,forward-backward,step",
            paramLabel = "<pass>",
            description =
                    "forward (no graph kept), forward-graph (kept, with the loss), forward-backward, step (with AdamW)."
                            + " Default: all four")
    private List<String> passes;

    @Option(
            names = "--dtype",
            split = ",",
            defaultValue = "fp32",
            paramLabel = "<dtype>",
            description = "fp32 (TF32 off) or bf16 (autocast). Default: ${DEFAULT-VALUE}")
    private List<String> dtypes;

    @Option(
            names = "--attention",
            split = ",",
            defaultValue = "plain",
            paramLabel = "<name>",
            description = "plain (all scores stored), flash (none), sdpa (PyTorch's own). Default: ${DEFAULT-VALUE}")
    private List<String> attentions;

    @Option(names = "--d-model", paramLabel = "<n>", description = "width of the model, in place of the size's")
    private Integer dModel;

    @Option(names = "--layers", paramLabel = "<n>", description = "number of layers, in place of the size's")
    private Integer layers;

    @Option(names = "--heads", paramLabel = "<n>", description = "attention heads a layer, in place of the size's")
    private Integer heads;

    @Option(names = "--vocab", paramLabel = "<n>", description = "size of the vocabulary. Default: 10000")
    private Integer vocab;

    @Option(
            names = "--folder",
            defaultValue = "target/memory",
            paramLabel = "<folder>",
            description = "where each case leaves its files. Default: ${DEFAULT-VALUE}")
    private Path folder;

    @Mixin
    private final SweepOptions sweep = new SweepOptions("memory_profiling");

    @Override
    public Integer call() throws IOException, InterruptedException {
        try {
            List<ModelCase> cases = cases();
            int exitCode = sweep.run(spec, survey -> {
                cases.forEach(c -> c.requireFits(survey));
                return cases.stream().map(ModelCase::toCase).toList();
            });
            for (ModelCase c : cases) {
                draw(MemoryWorkload.folder(c.toCase()));
            }
            return exitCode;
        } catch (IllegalArgumentException e) {
            throw new ParameterException(spec.commandLine(), e.getMessage(), e);
        }
    }

    /** Beside each timeline its picture. */
    private static void draw(Path folder) throws IOException {
        Path timeline = folder.resolve("timeline.csv");
        if (Files.exists(timeline)) {
            String title = "Memory in use: " + folder.getFileName();
            Figure figure = MemoryFigures.timeline(MemoryTimeline.read(timeline), "timeline", title);
            figure.save(folder);
        }
    }

    private List<ModelCase> cases() {
        Form form = Form.ofYear(year);
        boolean is2024 = form == Form.SPRING_2024;
        int b = Argument.atLeast("--batch", 1, batch == null ? (is2024 ? 16 : 4) : batch);
        List<Integer> ts = contexts == null ? List.of(is2024 ? 128 : 256) : contexts;
        ts.forEach(t -> Argument.atLeast("--context", 1, t));
        List<Precision> precisions = dtypes.stream().map(Precision::parse).toList();
        List<MemoryPass> ps = passes.stream().map(MemoryPass::parse).toList();
        var cases = new ArrayList<ModelCase>();
        for (ModelSize size : sizes()) {
            for (int t : ts) {
                TransformerConfig plain = config(size.config(form, t));
                for (String attention : attentions) {
                    for (Precision precision : precisions) {
                        for (MemoryPass pass : ps) {
                            cases.add(new ModelCase(
                                    label(size, plain), plain.withAttention(attention), b, precision, pass, folder));
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
        int inner = Argument.atLeast("--d-model", 1, dModel == null ? c.dFf() : 4L * width);
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
                : "d%s-l%s-h%s-v%s".formatted(c.dModel(), c.numLayers(), c.numHeads(), c.vocabSize());
    }

    /** A case before it becomes text. */
    private record ModelCase(
            String label, TransformerConfig config, int batch, Precision precision, MemoryPass pass, Path folder) {
        Case toCase() {
            return MemoryWorkload.of(label, config, batch, precision, pass, folder);
        }

        /** What is certain to be needed must be there; whether activations fit too, the run will show. */
        void requireFits(Survey survey) {
            int copies = pass == MemoryPass.STEP ? 4 : pass == MemoryPass.FORWARD_BACKWARD ? 2 : 1;
            long needed = config.parameterCount() * Float.BYTES * copies;
            if (needed > survey.availableBytes()) {
                throw new IllegalArgumentException(String.format(
                        Locale.ROOT,
                        "too little memory: --size %s --pass %s needs %.1f GB for parameters and what the pass adds to each"
                                + " alone, and %s has %.1f GB available",
                        label,
                        pass,
                        needed / GB,
                        survey.device(),
                        survey.availableBytes() / GB));
            }
        }
    }
}
