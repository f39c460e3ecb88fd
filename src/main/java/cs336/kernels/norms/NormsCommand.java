package cs336.kernels.norms;

import cs336.kernels.norms.RowBenchmark.RowTraffic;
import picocli.CommandLine.Command;

/** The command {@code norms}: runs the course's benchmark of RMSNorm, which compares normalizations. */
@Command(
        name = "norms",
        description = {
            "Measures implementations of RMSNorm, and PyTorch's layer_norm: the forward pass, forward with backward"
                    + " pass, and for comparison a copy of the rows.",
            "Implementations: plain (tensor operations), manual (tensor operations with hand-derived gradients),"
                    + " rmsnorm-fused (our kernels), rmsnorm-compiled (generated kernels), layernorm and torch-rms_norm"
                    + " (PyTorch's operators).",
            "All cases run in one process. The results of each are stored before the next one starts."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  A few seconds on a laptop:",
            "    ./cs336 norms --rows 500 --hidden 256,1024 --passes 40",
            "  The course's sizes and protocol:",
            "    ./cs336 norms --synchronize each",
            "",
            "Exit codes: 0 all cases measured (out of memory is a result), 1 a case failed or a file cannot be written, 2 invalid arguments."
        })
public final class NormsCommand extends RowCommand {
    /** Forward reads x and writes y; backward reads x and dy and writes dx. */
    private static final RowTraffic TRAFFIC = new RowTraffic(2, 5);

    /** Creates the command. */
    public NormsCommand() {
        super("rmsnorm_benchmarking", TRAFFIC, NormImplementation.values());
    }
}
