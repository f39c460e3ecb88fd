package cs336.kernels.attention;

import cs336.bench.Case;
import cs336.bench.LabCommand;
import cs336.bench.SweepOptions;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The command {@code attention}: measures time and memory of single-head attention by implementation and size. */
@Command(
        name = "attention",
        description = {
            "Measures time and memory of forward and backward passes of single-head attention, with inputs [batch,"
                    + " tokens, d].",
            "Each combination of the lists below is a case. It runs in its own process and is stored before the next"
                    + " case starts. Run the same command again to resume after an interruption."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  Two small sizes, in seconds, on any laptop:",
            "    ./cs336 attention --d 16,64 --context 256 --steps 10",
            "  All sizes of the course, then the same with implementations that do not store the scores:",
            "    ./cs336 attention",
            "    ./cs336 attention --attention flash,sdpa",
            "",
            "Exit codes: 0 all cases measured (out of memory is a result), 1 a case failed or a file cannot be written, 2 invalid arguments."
        })
public final class AttentionCommand extends LabCommand {
    @Option(
            names = "--attention",
            split = ",",
            defaultValue = "plain",
            paramLabel = "<name>",
            description = "plain (stores all scores), plain-compiled (the same in generated kernels), flash (stores"
                    + " none), sdpa (PyTorch's own), or a variant of flash, see './cs336 flash --help'")
    private List<String> attentions;

    @Option(names = "--batch", defaultValue = "8", paramLabel = "<n>", description = "sequences per batch")
    private int batch;

    @Option(
            names = "--d",
            split = ",",
            defaultValue = "16,32,64,128",
            paramLabel = "<n>",
            description = "head dimension")
    private List<Integer> widths;

    @Option(
            names = "--context",
            split = ",",
            defaultValue = "256,1024,4096,8192,16384",
            paramLabel = "<n>",
            description = "tokens per sequence")
    private List<Integer> contexts;

    @Option(
            names = "--dtype",
            split = ",",
            defaultValue = "fp32",
            paramLabel = "<dtype>",
            description = "fp32 (TF32 off), bf16, fp16")
    private List<String> dtypes;

    @Option(names = "--causal", description = "causal mask: query i attends to keys 0 … i only")
    private boolean causal;

    @Option(names = "--warmup", defaultValue = "5", paramLabel = "<n>", description = "passes before timing starts")
    private int warmup;

    @Option(names = "--steps", defaultValue = "100", paramLabel = "<n>", description = "timed passes of each kind")
    private int steps;

    @Mixin
    private final SweepOptions sweep = new SweepOptions("pytorch_attention");

    @Override
    public Integer call() throws IOException, InterruptedException {
        return checked(() -> {
            List<Case> cases = cases();
            return sweep.run(spec, survey -> cases);
        });
    }

    /** Returns all combinations, small ones first. */
    private List<Case> cases() {
        AttentionProtocol.STOPWATCH.requireTiming(warmup, steps);
        var cases = new ArrayList<Case>();
        for (int context : contexts) {
            for (int d : widths) {
                for (String dtype : dtypes) {
                    for (String attention : attentions) {
                        var options = new AttentionCase(attention, batch, null, d, context, dtype, causal);
                        cases.add(AttentionProtocol.STOPWATCH
                                .caseOf(options)
                                .with("warmup", warmup)
                                .with("steps", steps));
                    }
                }
            }
        }
        return cases;
    }
}
