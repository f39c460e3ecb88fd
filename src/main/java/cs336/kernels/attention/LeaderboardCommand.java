package cs336.kernels.attention;

import cs336.basics.Attention;
import cs336.bench.ArgumentCheck;
import cs336.bench.Case;
import cs336.bench.MachineSurvey;
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

/** Takes the time that the course's leaderboard of FlashAttention-2 asks for. */
@Command(
        name = "leaderboard",
        description = {
            "Times the course's leaderboard test of FlashAttention-2, in bf16 with a causal mask: attention, sum, and"
                    + " backward, by the protocol of Triton's do_bench. Beside it, the same with inputs of their own,"
                    + " and forward alone.",
            "Numbers of each combination are stored before the next one starts. Run the same line again to go on after a"
                    + " stop."
        },
        sortOptions = false,
        mixinStandardHelpOptions = true,
        footerHeading = "%nExamples:%n",
        footer = {
            "  The leaderboard's size on a card; without one, a small size:",
            "    cs336 leaderboard",
            "  One head, over the length, in less time:",
            "    cs336 leaderboard --heads 1 --context 1024,16384 --warmup 50 --rep 200",
            "  In turn with a peer, three times:",
            "    csv=data/measurements/h200/flash_leaderboard.csv",
            "    for round in 1 2 3; do",
            "      cs336 leaderboard --round $round",
            "      python3 peers/attention.py leaderboard $csv --round $round",
            "    done",
            "",
            "Exit codes: 0 all cases measured (out of memory is a result), 1 a case failed, 2 wrong use."
        })
public final class LeaderboardCommand implements Callable<Integer> {
    /** What is measured where the user names nothing else. */
    private record Size(int heads, int context, int warmup, int rep) {
        /** The leaderboard's. */
        static final Size OF_A_CARD = new Size(16, 16384, 1000, 10_000);

        static final Size WITHOUT_CARD = new Size(2, 256, 20, 100);

        static Size on(String device) {
            return device.startsWith("cuda") ? OF_A_CARD : WITHOUT_CARD;
        }

        @Override
        public String toString() {
            return heads + " × " + context;
        }
    }

    @Spec
    private CommandSpec spec;

    @Option(
            names = "--attention",
            split = ",",
            defaultValue = "flash",
            paramLabel = "<name>",
            description = "flash, sdpa (PyTorch's own), … Default: ${DEFAULT-VALUE}")
    private List<String> attentions;

    @Option(
            names = "--heads",
            split = ",",
            paramLabel = "<n>",
            description = "heads of the sequence. Default: 16; without a card 2")
    private List<Integer> heads;

    @Option(
            names = "--d",
            split = ",",
            defaultValue = "64",
            paramLabel = "<n>",
            description = "features of a head. Default: ${DEFAULT-VALUE}")
    private List<Integer> widths;

    @Option(
            names = "--context",
            split = ",",
            paramLabel = "<n>",
            description = "tokens of the sequence. Default: 16384; without a card 256")
    private List<Integer> contexts;

    @Option(
            names = "--warmup",
            paramLabel = "<ms>",
            description = "warm-up of each time. Default: 1000; without a card 20")
    private Integer warmup;

    @Option(
            names = "--rep",
            paramLabel = "<ms>",
            description = "timed repetition of each time. Default: 10000; without a card 100")
    private Integer rep;

    @Option(
            names = "--round",
            defaultValue = "1",
            paramLabel = "<n>",
            description = "number of this round, of several in turn with a peer. Default: ${DEFAULT-VALUE}")
    private int round;

    @Mixin
    private final SweepOptions sweep = new SweepOptions("flash_leaderboard");

    @Override
    public Integer call() throws IOException, InterruptedException {
        try {
            check();
            return sweep.run(spec, this::cases, Case::implementation);
        } catch (IllegalArgumentException e) {
            throw new ParameterException(spec.commandLine(), e.getMessage(), e);
        }
    }

    private void check() {
        attentions.forEach(Attention::named);
        widths.forEach(d -> ArgumentCheck.atLeast("--d", 1, d));
        if (heads != null) heads.forEach(n -> ArgumentCheck.atLeast("--heads", 1, n));
        if (contexts != null) contexts.forEach(context -> ArgumentCheck.atLeast("--context", 1, context));
        if (warmup != null) ArgumentCheck.atLeast("--warmup", 0, warmup);
        if (rep != null) ArgumentCheck.atLeast("--rep", 1, rep);
        ArgumentCheck.atLeast("--round", 1, round);
    }

    /** Every combination; neighbours are those that share a process. */
    private List<Case> cases(MachineSurvey survey) {
        Size size = Size.on(survey.device());
        if (size == Size.WITHOUT_CARD && (heads == null || contexts == null)) {
            System.err.printf(
                    "no card: heads × tokens default to %s, not to the leaderboard's %s%n", size, Size.OF_A_CARD);
        }
        var cases = new ArrayList<Case>();
        for (String attention : attentions) {
            for (int n : heads != null ? heads : List.of(size.heads)) {
                for (int d : widths) {
                    for (int context : contexts != null ? contexts : List.of(size.context)) {
                        cases.add(LeaderboardWorkload.of(
                                attention,
                                n,
                                d,
                                context,
                                warmup != null ? warmup : size.warmup,
                                rep != null ? rep : size.rep,
                                round));
                    }
                }
            }
        }
        return cases;
    }
}
