package cs336.precision;

import cs336.bench.Case;
import cs336.bench.LabCommand;
import cs336.bench.SweepOptions;
import cs336.torch.Device;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/** The command {@code precision}: runs the experiments of this package and stores their results. */
@Command(
        name = "precision",
        description = {
            "Measures low-precision floating-point types: their precision and range, the rounding error of sums, the dtypes"
                    + " of a model's tensors under autocast, the precision of matrix multiplications, the steps of a layer"
                    + " normalization that need more precision, and the underflow of gradients without loss scaling.",
            "Runs on the CPU and, if there is a GPU, also on it. Takes seconds."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "    ./cs336 precision",
            "    ./cs336 precision --device cpu --machine laptop",
            "",
            "Exit codes: 0 all experiments succeeded, 1 an experiment failed, 2 invalid arguments."
        })
public final class PrecisionCommand extends LabCommand {
    @Mixin
    private final SweepOptions sweep = new SweepOptions("mixed_precision");

    @Override
    public Integer call() throws IOException, InterruptedException {
        return checked(() ->
                sweep.run(spec, survey -> cases(Device.parse(survey.device()).isCuda()), c -> "all in one process"));
    }

    private static List<Case> cases(boolean cuda) {
        List<Case> cases = new ArrayList<>();
        for (String on : cuda ? List.of("cpu", "cuda") : List.of("cpu")) {
            for (Experiment experiment : Experiment.values()) {
                for (String dtype : experiment.dtypes()) {
                    for (String input : experiment.inputs(on.equals("cuda"))) {
                        cases.add(PrecisionWorkload.of(experiment, on, dtype, input));
                    }
                }
            }
        }
        return cases;
    }
}
