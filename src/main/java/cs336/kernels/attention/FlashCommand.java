package cs336.kernels.attention;

import cs336.basics.Attention;
import cs336.bench.ArgumentCheck;
import cs336.bench.Case;
import cs336.bench.SweepOptions;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.stream.IntStream;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Times attention over length, width and type: the course's benchmark of FlashAttention-2. */
@Command(
        name = "flash",
        description = {
            "Times attention forward, backward and end to end by the protocol of Triton's do_bench, and reads how much"
                    + " memory it takes above its inputs.",
            "Every combination of the lists below is one case; its numbers are stored before the next one starts."
                    + " Cases of one implementation and type share a process until one runs out of memory. Run the same"
                    + " line again to go on after a stop."
        },
        sortOptions = false,
        mixinStandardHelpOptions = true,
        footerHeading = "%nExamples:%n",
        footer = {
            "  Small sizes, in seconds, on any laptop:",
            "    cs336 flash",
            "  All sizes of the course, for a card:",
            "    cs336 flash --full",
            "  Long sequences of 16 heads, one implementation beside another:",
            "    cs336 flash --heads 16 --d 64 --context 16384,32768 --dtype bf16 --attention flash,sdpa",
            "",
            "Exit codes: 0 all cases measured (out of memory is a result), 1 a case failed, 2 wrong use."
        })
public final class FlashCommand implements Callable<Integer> {
    private static final List<String> DTYPES = List.of("bf16", "fp16", "fp32");

    private static final List<Integer> WIDTHS = List.of(64);
    private static final List<Integer> FULL_WIDTHS = List.of(16, 32, 64, 128);
    private static final List<Integer> CONTEXTS = List.of(128, 256, 512);
    private static final List<Integer> FULL_CONTEXTS =
            IntStream.rangeClosed(7, 16).mapToObj(power -> 1 << power).toList();

    @Spec
    private CommandSpec spec;

    @Option(
            names = "--attention",
            split = ",",
            defaultValue = "plain,flash,sdpa",
            paramLabel = "<name>",
            description = "plain (all scores stored), flash (none), sdpa (PyTorch's own), … Default: ${DEFAULT-VALUE}")
    private List<String> attentions;

    @Option(names = "--full", description = "all sizes of the course where no list is given below")
    private boolean full;

    @Option(
            names = "--d",
            split = ",",
            paramLabel = "<n>",
            description = "features of queries, keys and values. Default: 64; full: 16,32,64,128")
    private List<Integer> widths;

    @Option(
            names = "--context",
            split = ",",
            paramLabel = "<n>",
            description = "tokens a sequence. Default: 128,256,512; full: the powers of 2 from 128 to 65536")
    private List<Integer> contexts;

    @Option(
            names = "--dtype",
            split = ",",
            defaultValue = "bf16,fp32",
            paramLabel = "<dtype>",
            description = "bf16, fp16, fp32 (PyTorch's products without TF32). Default: ${DEFAULT-VALUE}")
    private List<String> dtypes;

    @Option(
            names = "--batch",
            defaultValue = "1",
            paramLabel = "<n>",
            description = "sequences. Default: ${DEFAULT-VALUE}")
    private int batch;

    @Option(
            names = "--heads",
            defaultValue = "1",
            paramLabel = "<n>",
            description = "heads of a sequence. Default: ${DEFAULT-VALUE}")
    private int heads;

    @Option(names = "--no-mask", description = "let every query see every key; causal otherwise")
    private boolean unmasked;

    @Option(
            names = "--warmup",
            defaultValue = "25",
            paramLabel = "<ms>",
            description = "warm-up of each pass. Default: ${DEFAULT-VALUE}")
    private int warmup;

    @Option(
            names = "--rep",
            defaultValue = "100",
            paramLabel = "<ms>",
            description = "timed repetition of each pass. Default: ${DEFAULT-VALUE}")
    private int rep;

    @Mixin
    private final SweepOptions sweep = new SweepOptions("flash_benchmarking");

    @Override
    public Integer call() throws IOException, InterruptedException {
        try {
            List<Case> cases = cases();
            return sweep.run(spec, survey -> cases, c -> List.of(c.implementation(), c.text("dtype")));
        } catch (IllegalArgumentException e) {
            throw new ParameterException(spec.commandLine(), e.getMessage(), e);
        }
    }

    /** Every combination, checked; neighbours are those that share a process, small ones first. */
    private List<Case> cases() {
        if (widths == null) widths = full ? FULL_WIDTHS : WIDTHS;
        if (contexts == null) contexts = full ? FULL_CONTEXTS : CONTEXTS;
        attentions.forEach(Attention::named);
        dtypes.forEach(dtype -> ArgumentCheck.oneOf("dtype", dtype, DTYPES));
        ArgumentCheck.atLeast("--batch", 1, batch);
        ArgumentCheck.atLeast("--heads", 1, heads);
        ArgumentCheck.atLeast("--warmup", 0, warmup);
        ArgumentCheck.atLeast("--rep", 1, rep);
        widths.forEach(d -> ArgumentCheck.atLeast("--d", 1, d));
        contexts.forEach(context -> ArgumentCheck.atLeast("--context", 1, context));
        var cases = new ArrayList<Case>();
        for (String dtype : dtypes) {
            for (String attention : attentions) {
                for (int d : widths) {
                    for (int context : contexts) {
                        cases.add(FlashWorkload.of(attention, batch, heads, d, context, dtype, !unmasked)
                                .setting("warmup", warmup)
                                .setting("rep", rep));
                    }
                }
            }
        }
        return cases;
    }
}
