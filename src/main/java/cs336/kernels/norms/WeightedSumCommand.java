package cs336.kernels.norms;

import cs336.kernels.norms.RowBenchmark.RowTraffic;
import picocli.CommandLine.Command;

/**
 * The command {@code weighted-sum}: compares implementations of the weighted sum of rows, the course's first kernel.
 */
@Command(
        name = "weighted-sum",
        description = {
            "Measures implementations of the weighted sum of rows: the forward pass, forward with backward pass, and"
                    + " for comparison a copy of the rows.",
            "Implementations: plain (tensor operations), fused (our kernels), compiled (generated kernels).",
            "All cases run in one process. The results of each are stored before the next one starts."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  A few seconds on a laptop:",
            "    ./cs336 weighted-sum --rows 500 --hidden 256,1024 --passes 40",
            "  The sizes of the course's RMSNorm benchmark:",
            "    ./cs336 weighted-sum",
            "",
            "Exit codes: 0 all cases measured (out of memory is a result), 1 a case failed or a file cannot be written, 2 invalid arguments."
        })
public final class WeightedSumCommand extends RowCommand {
    /** Forward reads x; backward reads x and writes dx. */
    private static final RowTraffic TRAFFIC = new RowTraffic(1, 3);

    /** Creates the command. */
    public WeightedSumCommand() {
        super("weighted_sum", TRAFFIC, WeightedSumImplementation.values());
    }
}
