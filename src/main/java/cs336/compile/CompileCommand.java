package cs336.compile;

import cs336.bench.ArgumentCheck;
import cs336.bench.LabCommand;
import cs336.bench.ModelCaseOptions;
import cs336.bench.Pass;
import cs336.bench.SweepOptions;
import cs336.torch.Device;
import java.io.IOException;
import java.util.List;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The command {@code compile}: times compiled forward passes and training steps next to plain ones. */
@Command(
        name = "compile",
        description = {
            "Times forward passes and training steps of Transformer language models, plain and compiled.",
            "A compiled pass is recorded once. Its small operations are fused into generated CUDA kernels, and the whole"
                    + " pass becomes one CUDA graph. On the CPU the recorded operators are replayed."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  A tiny model on any machine:",
            "    ./cs336 compile --d-model 64 --layers 2 --heads 2 --context 32 --mode plain,fused",
            "  All sizes on a GPU, in mixed precision:",
            "    ./cs336 compile --size all --context 128,512 --dtype bf16",
            "",
            "Exit codes: 0 all cases measured (out of memory is a result), 1 a case failed, 2 invalid arguments."
        })
public final class CompileCommand extends LabCommand {
    @Mixin
    private final ModelCaseOptions models = new ModelCaseOptions(Pass.FORWARD, Pass.STEP);

    @Option(
            names = "--mode",
            split = ",",
            paramLabel = "<mode>",
            description =
                    "plain (operator by operator), graph (as one CUDA graph), fused (with generated kernels), searched"
                            + " (generated kernels with the fastest tiles, minutes of search). Default: plain, graph and"
                            + " fused; on the CPU plain and fused")
    private List<String> modes;

    @Option(names = "--warmup", defaultValue = "5", paramLabel = "<n>", description = "number of warm-up steps")
    private int warmup;

    @Option(names = "--steps", defaultValue = "10", paramLabel = "<n>", description = "number of timed steps")
    private int steps;

    @Option(
            names = "--rounds",
            defaultValue = "1",
            paramLabel = "<n>",
            description =
                    "number of times to repeat the warm-up and timed steps; programs that peers/alternate.py starts"
                            + " alternate after each")
    private int rounds;

    @Mixin
    private final SweepOptions sweep = new SweepOptions("torch_compile");

    @Override
    public Integer call() throws IOException, InterruptedException {
        return checked(() -> {
            ArgumentCheck.atLeast("--warmup", 1, warmup);
            ArgumentCheck.atLeast("--steps", 1, steps);
            ArgumentCheck.atLeast("--rounds", 1, rounds);
            List<CompileMode> named = modes == null
                    ? null
                    : modes.stream().map(CompileMode::parse).toList();
            models.cases().forEach(c -> CompileWorkload.requireSupported(c.pass()));
            return sweep.run(spec, machine -> {
                boolean isCuda = Device.parse(machine.device()).isCuda();
                for (CompileMode mode : List.of(CompileMode.GRAPH, CompileMode.SEARCHED)) {
                    if (!isCuda && named != null && named.contains(mode)) {
                        throw new IllegalArgumentException(
                                "--mode " + mode + " needs --device cuda, not " + machine.device());
                    }
                }
                List<CompileMode> onMachine = named != null
                        ? named
                        : isCuda
                                ? List.of(CompileMode.PLAIN, CompileMode.GRAPH, CompileMode.FUSED)
                                : List.of(CompileMode.PLAIN, CompileMode.FUSED);
                return models.cases(machine)
                        .flatMap(
                                c -> onMachine.stream().map(mode -> CompileWorkload.of(c, mode, warmup, steps, rounds)))
                        .toList();
            });
        });
    }
}
