package cs336.kernels.attention;

import cs336.bench.Case;
import cs336.bench.LabCommand;
import cs336.bench.SweepOptions;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The command {@code flash}: runs the course's benchmark of FlashAttention-2 over sequence length, width and dtype. */
@Command(
        name = "flash",
        description = {
            "Times attention forward, backward and end to end by the protocol of Triton's do_bench, and measures its"
                    + " peak memory in addition to the inputs.",
            "Each combination of the lists below is a case and is stored before the next case starts. Cases with the"
                    + " same implementation and dtype share a process until one of them runs out of memory. Run the"
                    + " same command again to resume after an interruption."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  Small sizes, in seconds, on any laptop:",
            "    ./cs336 flash",
            "  All sizes of the course, on a GPU:",
            "    ./cs336 flash --full",
            "  Long sequences with 16 heads, two implementations compared:",
            "    ./cs336 flash --heads 16 --d 64 --context 16384,32768 --dtype bf16 --attention flash,sdpa",
            "",
            "Exit codes: 0 all cases measured (out of memory is a result), 1 a case failed or a file cannot be written, 2 invalid arguments."
        })
public final class FlashCommand extends LabCommand {
    private static final List<Integer> WIDTHS = List.of(64);
    private static final List<Integer> FULL_WIDTHS = List.of(16, 32, 64, 128);
    private static final List<Integer> CONTEXTS = List.of(128, 256, 512);
    private static final List<Integer> FULL_CONTEXTS =
            IntStream.rangeClosed(7, 16).mapToObj(power -> 1 << power).toList();

    @Option(
            names = "--attention",
            split = ",",
            defaultValue = "plain,flash,sdpa",
            paramLabel = "<name>",
            description =
                    "plain (stores all scores), plain-compiled (the same in generated kernels), flash (stores none), sdpa"
                            + " (PyTorch's own); single variants for comparison: flash-tiled (tensor operations),"
                            + " flash-first (no tensor cores), flash-mma (mma.sync), flash-tf32 and flash-3xtf32 (fp32"
                            + " inputs as one TF32 or three TF32 multiplications), flash-deterministic (the fastest with"
                            + " bitwise reproducible results)")
    private List<String> attentions;

    @Option(names = "--full", description = "all sizes of the course, for lists that are not given")
    private boolean full;

    @Option(
            names = "--d",
            split = ",",
            paramLabel = "<n>",
            description = "head dimension. Default: 64; with --full: 16,32,64,128")
    private List<Integer> widths;

    @Option(
            names = "--context",
            split = ",",
            paramLabel = "<n>",
            description = "tokens per sequence. Default: 128,256,512; with --full: powers of 2 from 128 to 65536")
    private List<Integer> contexts;

    @Option(
            names = "--dtype",
            split = ",",
            defaultValue = "bf16,fp32",
            paramLabel = "<dtype>",
            description = "bf16, fp16, fp32 (PyTorch's matrix multiplications without TF32)")
    private List<String> dtypes;

    @Option(names = "--batch", defaultValue = "1", paramLabel = "<n>", description = "sequences per batch")
    private int batch;

    @Option(names = "--heads", defaultValue = "1", paramLabel = "<n>", description = "heads per sequence")
    private int heads;

    @Option(names = "--no-mask", description = "no mask: every query attends to all keys. Default: causal mask")
    private boolean unmasked;

    @Option(
            names = "--warmup",
            defaultValue = "25",
            paramLabel = "<ms>",
            description = "duration of the warm-up of each metric")
    private int warmup;

    @Option(
            names = "--rep",
            defaultValue = "100",
            paramLabel = "<ms>",
            description = "duration of the timed passes of each metric")
    private int rep;

    @Mixin
    private final SweepOptions sweep = new SweepOptions("flash_benchmarking");

    @Override
    public Integer call() throws IOException, InterruptedException {
        return checked(() -> {
            List<Case> cases = cases();
            return sweep.run(spec, survey -> cases, c -> List.of(c.implementation(), c.text("dtype")));
        });
    }

    /** Returns all combinations; cases that share a process are adjacent, small ones first. */
    private List<Case> cases() {
        if (widths == null) {
            widths = full ? FULL_WIDTHS : WIDTHS;
        }
        if (contexts == null) {
            contexts = full ? FULL_CONTEXTS : CONTEXTS;
        }
        AttentionProtocol.DO_BENCH.requireTiming(warmup, rep);
        var cases = new ArrayList<Case>();
        for (String dtype : dtypes) {
            for (String attention : attentions) {
                for (int d : widths) {
                    for (int context : contexts) {
                        var options = new AttentionCase(attention, batch, heads, d, context, dtype, !unmasked);
                        cases.add(AttentionProtocol.DO_BENCH
                                .caseOf(options)
                                .setting("warmup", warmup)
                                .setting("rep", rep));
                    }
                }
            }
        }
        return cases;
    }
}
