package cs336.kernels.attention;

import cs336.bench.ArgumentCheck;
import cs336.bench.Case;
import cs336.bench.LabCommand;
import cs336.bench.MachineSurvey;
import cs336.bench.SweepOptions;
import cs336.units.Separators;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The command {@code leaderboard}: times the course's leaderboard test of FlashAttention-2. */
@Command(
        name = "leaderboard",
        description = {
            "Times the course's leaderboard test of FlashAttention-2 by the protocol of Triton's do_bench: attention,"
                    + " sum and backward, in bf16 with a causal mask. Also times the same with separate input tensors,"
                    + " and the forward pass alone.",
            "Each combination of the lists below is stored before the next one starts. Run the same command again to"
                    + " resume after an interruption."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  The leaderboard's size on a GPU; a small size without one:",
            "    ./cs336 leaderboard",
            "  One head, two lengths, in less time:",
            "    ./cs336 leaderboard --heads 1 --context 1024,16384 --warmup 50 --rep 200",
            "  Three rounds, interleaved with PyTorch in Python:",
            "    csv=data/measurements/h200/flash_leaderboard.csv",
            "    for round in 1 2 3; do",
            "      ./cs336 leaderboard --round $round",
            "      python3 peers/attention.py leaderboard $csv --round $round",
            "    done",
            "",
            "Exit codes: 0 all cases measured (out of memory is a result), 1 a case failed or a file cannot be written, 2 invalid arguments."
        })
public final class LeaderboardCommand extends LabCommand {
    /** Defaults of the options that depend on the device. */
    private record LeaderboardSize(int heads, int context, int warmup, int rep) {
        static final LeaderboardSize GPU = new LeaderboardSize(16, 16384, 1000, 10_000);
        static final LeaderboardSize CPU = new LeaderboardSize(2, 256, 20, 100);

        @Override
        public String toString() {
            return heads + " × " + Separators.of(context);
        }
    }

    @Option(
            names = "--attention",
            split = ",",
            defaultValue = "flash",
            paramLabel = "<name>",
            description = "flash, sdpa (PyTorch's own), or another name that the command flash accepts")
    private List<String> attentions;

    @Option(
            names = "--heads",
            split = ",",
            paramLabel = "<n>",
            description = "heads of the sequence. Default: 16; without a GPU 2")
    private List<Integer> heads;

    @Option(names = "--d", split = ",", defaultValue = "64", paramLabel = "<n>", description = "head dimension")
    private List<Integer> widths;

    @Option(
            names = "--context",
            split = ",",
            paramLabel = "<n>",
            description = "tokens of the sequence. Default: 16384; without a GPU 256")
    private List<Integer> contexts;

    @Option(
            names = "--warmup",
            paramLabel = "<ms>",
            description = "duration of the warm-up of each metric. Default: 1000; without a GPU 20")
    private Integer warmup;

    @Option(
            names = "--rep",
            paramLabel = "<ms>",
            description = "duration of the timed passes of each metric. Default: 10000; without a GPU 100")
    private Integer rep;

    @Option(
            names = "--round",
            defaultValue = "1",
            paramLabel = "<n>",
            description = "number of this round, if rounds are interleaved with those of another program")
    private int round;

    @Mixin
    private final SweepOptions sweep = new SweepOptions("flash_leaderboard");

    @Override
    public Integer call() throws IOException, InterruptedException {
        return checked(() -> {
            cases(LeaderboardSize.CPU); // checks the options before the survey starts a process
            return sweep.run(spec, this::cases, Case::implementation);
        });
    }

    private List<Case> cases(MachineSurvey survey) {
        if (survey.isGpu()) {
            return cases(LeaderboardSize.GPU);
        }
        if (heads == null || contexts == null) {
            System.err.printf(
                    "no GPU: heads × tokens default to %s, not to the leaderboard's %s%n",
                    LeaderboardSize.CPU, LeaderboardSize.GPU);
        }
        return cases(LeaderboardSize.CPU);
    }

    /** Returns all combinations; cases that share a process are adjacent. */
    private List<Case> cases(LeaderboardSize size) {
        int warmupMs = warmup != null ? warmup : size.warmup;
        int repMs = rep != null ? rep : size.rep;
        AttentionProtocol.LEADERBOARD.requireTiming(warmupMs, repMs);
        ArgumentCheck.atLeast("--round", 1, round);
        var cases = new ArrayList<Case>();
        for (String attention : attentions) {
            for (int n : heads != null ? heads : List.of(size.heads)) {
                for (int d : widths) {
                    for (int context : contexts != null ? contexts : List.of(size.context)) {
                        var options = new AttentionCase(attention, 1, n, d, context, "bf16", true);
                        cases.add(AttentionProtocol.LEADERBOARD
                                .caseOf(options)
                                .with("warmup", warmupMs)
                                .with("rep", repMs)
                                .with("round", round));
                    }
                }
            }
        }
        return cases;
    }
}
