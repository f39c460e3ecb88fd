package cs336.bench;

import java.io.IOException;
import java.util.List;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The command {@code benchmark}: times Transformer language models for every combination of the listed options. */
@Command(
        name = "benchmark",
        description = {
            "Times forward pass, backward pass and optimizer step of Transformer language models.",
            "Each combination of the lists below is one case. A case runs in its own process, and its results are"
                    + " stored before the next case starts. Run the same command again to resume after an interruption.",
            "A table shows mean ± standard deviation. 'total' is the time of a step that synchronizes at its end. The times"
                    + " of the phases are from further steps that synchronize after each phase, so their sum may differ."
                    + " 'unsynchronized' is the time in which the host queues a forward pass."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  A tiny model, in seconds, on any laptop:",
            "    ./cs336 benchmark --d-model 64 --layers 2 --heads 2 --context 32",
            "  All sizes of the 2025 model, then of the 2024 model:",
            "    ./cs336 benchmark --size all --context 128,256,512,1024",
            "    ./cs336 benchmark --size all --year 2024",
            "  Forward and backward passes in fp32, TF32 and mixed precision:",
            "    ./cs336 benchmark --size all --dtype fp32,tf32,bf16 --pass forward-backward --problem mixed",
            "  Training steps as CUDA graphs:",
            "    ./cs336 benchmark --pass step --dtype bf16 --graph",
            "  The cost of the first steps, with the time of each step stored:",
            "    ./cs336 benchmark --size all --warmup 0,1,2 --keep-steps --problem warmup",
            "  A timeline in Nsight Systems, with NVTX ranges of the model and the step:",
            "    nsys profile -t cuda,nvtx ./cs336 benchmark --size xl --problem traced",
            "",
            "Exit codes: 0 all cases measured (out of memory is a result), 1 a case failed or a file cannot be written, 2 invalid arguments."
        })
public final class BenchmarkCommand extends LabCommand {
    @Mixin
    private final ModelCaseOptions models = new ModelCaseOptions(Pass.FORWARD, Pass.FORWARD_BACKWARD, Pass.STEP);

    @Option(
            names = "--warmup",
            split = ",",
            paramLabel = "<n>",
            description = "number of warm-up steps of each round. Default: 5 (2024: 1)")
    private List<Integer> warmups;

    @Option(names = "--steps", paramLabel = "<n>", description = "number of timed steps. Default: 10 (2024: 5)")
    private Integer steps;

    @Option(
            names = "--graph",
            description =
                    "run the forward and backward passes as one CUDA graph, which removes their launch overhead; the"
                            + " implementation is stored as <name>+graph")
    private boolean graph;

    @Mixin
    private final SweepOptions sweep = new SweepOptions("benchmarking_script");

    @Override
    public Integer call() throws IOException, InterruptedException {
        return checked(() -> {
            int n = ArgumentCheck.atLeast("--steps", 1, models.orDefault(steps, 10, 5));
            List<Integer> ws = models.orDefault(warmups, List.of(5), List.of(1));
            ws.forEach(w -> ArgumentCheck.atLeast("--warmup", 0, w));
            models.cases(); // reports invalid options before the machine survey starts
            return sweep.run(spec, machine -> {
                if (graph && !machine.isGpu()) {
                    throw new IllegalArgumentException("--graph needs --device cuda, not " + machine.device());
                }
                return models.cases(machine)
                        .flatMap(c -> ws.stream().map(w -> BenchmarkWorkload.of(c, w, n, graph)))
                        .toList();
            });
        });
    }
}
