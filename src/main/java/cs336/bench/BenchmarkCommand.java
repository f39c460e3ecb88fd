package cs336.bench;

import cs336.basics.ModelEdition;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Times Transformer language models: every combination of the given sizes, contexts, dtypes, passes and warm-ups. */
@Command(
        name = "benchmark",
        description = {
            "Times forward pass, backward pass and optimizer step of Transformer language models.",
            "Every combination of the lists below is one case and runs in a process of its own; its numbers are stored"
                    + " before the next one starts. Run the same line again to go on after a stop."
        },
        sortOptions = false,
        mixinStandardHelpOptions = true,
        footerHeading = "%nExamples:%n",
        footer = {
            "  A tiny model, in seconds, on any laptop:",
            "    cs336 benchmark --d-model 64 --layers 2 --heads 2 --context 32",
            "  All sizes as in the course of 2025, then as in that of 2024:",
            "    cs336 benchmark --size all --context 128,256,512,1024",
            "    cs336 benchmark --size all --year 2024",
            "  Forward and backward passes in full and in mixed precision:",
            "    cs336 benchmark --size all --dtype fp32,tf32,bf16 --pass forward-backward --problem mixed",
            "  What the first steps cost, with every single step kept:",
            "    cs336 benchmark --size all --warmup 0,1,2 --keep-steps --problem warmup",
            "  A timeline in Nsight Systems, with the ranges of model and step:",
            "    nsys profile -t cuda,nvtx ./cs336 benchmark --size xl --problem traced",
            "",
            "Exit codes: 0 all cases measured (out of memory is a result), 1 a case failed, 2 wrong use."
        })
public final class BenchmarkCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Mixin
    private final ModelCaseOptions models = new ModelCaseOptions(Pass.FORWARD, Pass.FORWARD_BACKWARD, Pass.STEP);

    @Option(
            names = "--warmup",
            split = ",",
            paramLabel = "<n>",
            description = "steps before timing begins. Default: 5 (2024: 1)")
    private List<Integer> warmups;

    @Option(names = "--steps", paramLabel = "<n>", description = "timed steps. Default: 10 (2024: 5)")
    private Integer steps;

    @Mixin
    private final SweepOptions sweep = new SweepOptions("benchmarking_script");

    @Override
    public Integer call() throws IOException, InterruptedException {
        try {
            boolean is2024 = models.edition() == ModelEdition.SPRING_2024;
            int n = ArgumentCheck.atLeast("--steps", 1, steps == null ? (is2024 ? 5 : 10) : steps);
            List<Integer> ws = warmups == null ? List.of(is2024 ? 1 : 5) : warmups;
            ws.forEach(w -> ArgumentCheck.atLeast("--warmup", 0, w));
            models.cases(); // are checked before the machine is
            return sweep.run(
                    spec,
                    machine -> models.cases(machine)
                            .flatMap(c -> ws.stream().map(w -> BenchmarkWorkload.of(c, w, n)))
                            .toList());
        } catch (IllegalArgumentException e) {
            throw new ParameterException(spec.commandLine(), e.getMessage(), e);
        }
    }
}
