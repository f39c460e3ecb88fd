package cs336.kernels.attention;

import cs336.basics.Attention;
import cs336.bench.ArgumentCheck;
import cs336.bench.Case;
import cs336.bench.SweepOptions;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Times attention without heads and reads its memory: every combination of the given implementations and sizes. */
@Command(
        name = "attention",
        description = {
            "Times forward and backward passes of attention without heads, and reads how much memory they take.",
            "Every combination of the lists below is one case and runs in a process of its own; its numbers are stored"
                    + " before the next one starts. Run the same line again to go on after a stop."
        },
        sortOptions = false,
        mixinStandardHelpOptions = true,
        footerHeading = "%nExamples:%n",
        footer = {
            "  Two small sizes, in seconds, on any laptop:",
            "    cs336 attention --d 16,64 --context 256 --steps 10",
            "  All sizes of the course, then the same without stored scores:",
            "    cs336 attention",
            "    cs336 attention --attention flash,sdpa",
            "",
            "Exit codes: 0 all cases measured (out of memory is a result), 1 a case failed, 2 wrong use."
        })
public final class AttentionCommand implements Callable<Integer> {
    private static final List<String> DTYPES = List.of("fp32", "bf16", "fp16");

    @Spec
    private CommandSpec spec;

    @Option(
            names = "--attention",
            split = ",",
            defaultValue = "plain",
            paramLabel = "<name>",
            description = "plain (all scores stored), flash (none), sdpa (PyTorch's own). Default: ${DEFAULT-VALUE}")
    private List<String> attentions;

    @Option(
            names = "--batch",
            defaultValue = "8",
            paramLabel = "<n>",
            description = "sequences a pass. Default: ${DEFAULT-VALUE}")
    private int batch;

    @Option(
            names = "--d",
            split = ",",
            defaultValue = "16,32,64,128",
            paramLabel = "<n>",
            description = "features of queries, keys and values. Default: ${DEFAULT-VALUE}")
    private List<Integer> widths;

    @Option(
            names = "--context",
            split = ",",
            defaultValue = "256,1024,4096,8192,16384",
            paramLabel = "<n>",
            description = "tokens a sequence. Default: ${DEFAULT-VALUE}")
    private List<Integer> contexts;

    @Option(
            names = "--dtype",
            split = ",",
            defaultValue = "fp32",
            paramLabel = "<dtype>",
            description = "fp32 (TF32 off), bf16, fp16. Default: ${DEFAULT-VALUE}")
    private List<String> dtypes;

    @Option(names = "--causal", description = "hide later keys from earlier queries")
    private boolean causal;

    @Option(
            names = "--warmup",
            defaultValue = "5",
            paramLabel = "<n>",
            description = "passes before timing begins. Default: ${DEFAULT-VALUE}")
    private int warmup;

    @Option(
            names = "--steps",
            defaultValue = "100",
            paramLabel = "<n>",
            description = "timed passes of each kind. Default: ${DEFAULT-VALUE}")
    private int steps;

    @Mixin
    private final SweepOptions sweep = new SweepOptions("pytorch_attention");

    @Override
    public Integer call() throws IOException, InterruptedException {
        try {
            List<Case> cases = cases();
            return sweep.run(spec, survey -> cases);
        } catch (IllegalArgumentException e) {
            throw new ParameterException(spec.commandLine(), e.getMessage(), e);
        }
    }

    /** Every combination, checked; small ones first. */
    private List<Case> cases() {
        attentions.forEach(Attention::named);
        dtypes.forEach(dtype -> ArgumentCheck.oneOf("dtype", dtype, DTYPES));
        ArgumentCheck.atLeast("--batch", 1, batch);
        ArgumentCheck.atLeast("--warmup", 0, warmup);
        ArgumentCheck.atLeast("--steps", 1, steps);
        widths.forEach(d -> ArgumentCheck.atLeast("--d", 1, d));
        contexts.forEach(context -> ArgumentCheck.atLeast("--context", 1, context));
        var cases = new ArrayList<Case>();
        for (int context : contexts) {
            for (int d : widths) {
                for (String dtype : dtypes) {
                    for (String attention : attentions) {
                        cases.add(AttentionWorkload.of(attention, batch, d, context, dtype, causal, warmup, steps));
                    }
                }
            }
        }
        return cases;
    }
}
