package cs336.precision;

import cs336.bench.Case;
import cs336.bench.SweepOptions;
import cs336.torch.Device;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Runs the experiments on narrow types and stores what they show. */
@Command(
        name = "precision",
        description = {
            "Shows what narrow floating-point types do: what they hold, what sums lose in them, which types autocast gives the"
                    + " parts of a model, what matrix products see of their operands, which parts of a layer normalisation need"
                    + " more bits, and what of a gradient is lost without a loss scale.",
            "On a machine with a card, each on the card and on the CPU. Takes seconds."
        },
        sortOptions = false,
        mixinStandardHelpOptions = true,
        footerHeading = "%nExamples:%n",
        footer = {
            "    cs336 precision",
            "    cs336 precision --device cpu --machine laptop",
            "",
            "Exit codes: 0 all experiments done, 1 one failed, 2 wrong use."
        })
public final class PrecisionCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Mixin
    private final SweepOptions sweep = new SweepOptions("mixed_precision");

    @Override
    public Integer call() throws IOException, InterruptedException {
        try {
            return sweep.run(spec, survey -> cases(Device.parse(survey.device()).isCuda()), c -> "all in one process");
        } catch (IllegalArgumentException e) {
            throw new ParameterException(spec.commandLine(), e.getMessage(), e);
        }
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
