package cs336.profile.memory;

import cs336.bench.Case;
import cs336.bench.LabCommand;
import cs336.bench.ModelCase;
import cs336.bench.ModelCaseOptions;
import cs336.bench.ModelCases;
import cs336.bench.Pass;
import cs336.bench.SweepOptions;
import cs336.charts.Figure;
import cs336.profile.FolderOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/**
 * The command {@code memory}: records the memory of models for every combination of sizes, contexts, dtypes and passes.
 */
@Command(
        name = "memory",
        description = {
            "Records every allocation of language models: the peak, its composition by category, and the predicted peak.",
            "Each combination of the lists below is one case and runs in its own process, which builds the model and runs the pass"
                    + " twice. Each case writes timeline.csv, timeline.svg, largest.csv and memory_snapshot.pickle to a folder named"
                    + " after the case; https://pytorch.org/memory_viz displays the snapshot."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  A tiny model, in seconds, on any laptop:",
            "    ./cs336 memory --d-model 64 --layers 2 --heads 2 --context 32",
            "  The largest model of the 2025 course:",
            "    ./cs336 memory --size 2.7B --context 128,256,512 --dtype fp32,bf16",
            "",
            "Exit codes: 0 all cases measured (out of memory is a result), 1 a case failed or a file cannot be written, 2 invalid arguments."
        })
public final class MemoryCommand extends LabCommand {
    @Mixin
    private final ModelCaseOptions models = new ModelCaseOptions(Pass.values());

    @Mixin
    private final FolderOptions folder = new FolderOptions("target/memory");

    @Mixin
    private final SweepOptions sweep = new SweepOptions("memory_profiling");

    @Override
    public Integer call() throws IOException, InterruptedException {
        return checked(() -> {
            List<ModelCase> cases = models.cases();
            folder.requireWritable();
            int exitCode = sweep.run(
                    spec, machine -> models.cases(machine).map(this::toCase).toList());
            for (ModelCase c : cases) {
                draw(ModelCases.folder(toCase(c)));
            }
            return exitCode;
        });
    }

    /** Draws the timeline of a case next to its CSV file, if the case was measured. */
    private static void draw(Path folder) throws IOException {
        Path timeline = folder.resolve("timeline.csv");
        if (Files.exists(timeline)) {
            String title = "Memory in use: " + folder.getFileName();
            Figure figure = MemoryTimelineChart.of(MemoryTimeline.read(timeline), "timeline", title);
            figure.save(folder);
        }
    }

    private Case toCase(ModelCase c) {
        return MemoryWorkload.of(c, folder.path());
    }
}
