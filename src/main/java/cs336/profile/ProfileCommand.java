package cs336.profile;

import cs336.bench.AlignedText;
import cs336.bench.ArgumentCheck;
import cs336.bench.Case;
import cs336.bench.LabCommand;
import cs336.bench.Measurement;
import cs336.bench.Measurements;
import cs336.bench.ModelCase;
import cs336.bench.ModelCaseOptions;
import cs336.bench.ModelCases;
import cs336.bench.Pass;
import cs336.bench.Provenance;
import cs336.bench.StorageOptions;
import cs336.bench.Sweep;
import cs336.bench.SweepOptions;
import cs336.units.Separators;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/**
 * The command {@code profile}: profiles language models for every combination of sizes, contexts, dtypes and passes.
 */
@Command(
        name = "profile",
        description = {
            "Shows where language models spend their time, by operator, kernel and range.",
            "Each combination of the lists below is one case and runs in its own process. Its measurements are stored before the next"
                    + " case starts. Its trace (for Perfetto), tables, folded stacks, flame graph and timeline are written to a folder"
                    + " named after the case. To resume an interrupted sweep, run the same command again."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  A tiny model, in seconds, on any laptop:",
            "    ./cs336 profile --d-model 64 --layers 2 --heads 2 --context 32",
            "  Inference and training of all sizes, in fp32 and in mixed precision:",
            "    ./cs336 profile --size all --context 128,256,512,1024 --dtype fp32,bf16",
            "  Draw the figures again from existing folders:",
            "    ./cs336 profile --size all --draw-only",
            "",
            "Exit codes: 0 all cases measured (out of memory is a result), 1 a case failed or a file cannot be written, 2 invalid arguments."
        })
public final class ProfileCommand extends LabCommand {
    /**
     * Number of the longest kernels of a phase that are stored with the measurements, and of the longest that are not
     * GEMMs. The folder of the case has all kernels.
     */
    private static final int TOP = 3;

    /** The number of cases whose tables are printed. */
    private static final int MOST_DESCRIBED = 4;

    /** The number of rows that are printed of a table. */
    private static final int MOST_ROWS = 10;

    /** The metrics in the printed summary, with their column headers. */
    private static final Map<String, String> SHOWN = new LinkedHashMap<>();

    static {
        SHOWN.put("stopwatch", "step (ms)");
        SHOWN.put("stopwatch-profiled", "step with profiler (ms)");
        SHOWN.put("profiled", "step in trace (ms)");
        SHOWN.put("busy", "GPU busy time (ms)");
        SHOWN.put("total-matmul", "GEMMs (ms)");
        SHOWN.put("total-launches", "kernel launches");
    }

    @Mixin
    private final ModelCaseOptions models = new ModelCaseOptions(Pass.FORWARD, Pass.STEP);

    @Option(
            names = "--warmup",
            defaultValue = "2",
            paramLabel = "<n>",
            description = "warm-up steps before timing starts")
    private int warmup;

    @Option(
            names = "--steps",
            defaultValue = "3",
            paramLabel = "<n>",
            description =
                    "steps timed without the profiler, and then again with it. Stored cases are not measured again"
                            + " with other --warmup or --steps unless --again is given")
    private int steps;

    @Mixin
    private final FolderOptions folder = new FolderOptions("target/profiles");

    @Option(names = "--no-pictures", description = "do not draw flame graphs and timelines")
    private boolean noPictures;

    @Option(names = "--draw-only", description = "measure nothing; draw the figures of existing folders")
    private boolean drawOnly;

    @Mixin
    private final SweepOptions sweep = new SweepOptions("profiling");

    @Override
    public Integer call() throws IOException, InterruptedException {
        return checked(() -> {
            ArgumentCheck.atLeast("--warmup", 0, warmup);
            ArgumentCheck.atLeast("--steps", 1, steps);
            List<Path> folders = models.cases().stream()
                    .map(c -> ModelCases.folder(toCase(c)))
                    .distinct()
                    .toList();
            if (drawOnly) {
                requireDrawable(folders);
            } else {
                folder.requireWritable();
            }
            int exitCode = drawOnly ? 0 : measure();
            if (!noPictures) {
                for (Path of : folders) {
                    draw(of);
                }
            }
            for (Path of : folders.subList(0, Math.min(folders.size(), MOST_DESCRIBED))) {
                describe(of);
            }
            out().flush();
            return exitCode;
        });
    }

    private void requireDrawable(List<Path> folders) {
        if (noPictures) {
            throw new IllegalArgumentException("--draw-only and --no-pictures exclude each other");
        }
        if (folders.stream().noneMatch(of -> Files.exists(of.resolve(ProfileWorkload.STACKS)))) {
            throw new IllegalArgumentException(
                    "--draw-only: there is no profile of these cases in --folder " + folder.path());
        }
    }

    private Case toCase(ModelCase c) {
        return ProfileWorkload.of(c, warmup, steps, folder.path());
    }

    private int measure() throws IOException, InterruptedException {
        StorageOptions.Swept swept = sweep.sweep(
                machine -> models.cases(machine).map(this::toCase).toList(),
                sweep -> sweep.alsoStore(new KernelRows()));
        out().println(summary(swept.measurements(), swept.cases()));
        out().flush();
        return swept.exitCode();
    }

    /**
     * The longest kernels of each phase, and the longest that are not GEMMs, in {@code <problem>_kernels.csv} next to
     * the other measurements.
     */
    private static final class KernelRows implements Sweep.ExtraResults {
        private static Measurements file(Measurements rows) {
            String name = rows.path().getFileName().toString().replaceFirst("\\.csv$", "_kernels.csv");
            return new Measurements(rows.path().resolveSibling(name));
        }

        @Override
        public void check(Measurements rows) throws IOException {
            file(rows).requireWritable();
        }

        @Override
        public void store(Case c, Measurements rows, Provenance provenance) throws IOException {
            storeKernels(c, file(rows), provenance);
        }
    }

    private static void storeKernels(Case c, Measurements measurements, Provenance provenance) throws IOException {
        Path file = ModelCases.folder(c).resolve(ProfileWorkload.KERNELS);
        if (!Files.exists(file)) {
            return;
        }
        Map<Case, List<Measurement>> stored = new LinkedHashMap<>();
        Map<String, Integer> others = new HashMap<>(); // by phase, how many kernels so far are not GEMMs
        for (Row row : ProfileWorkload.readKernels(file)) {
            boolean matmul = row.getString("kind").equals(KernelKind.MATMUL.toString());
            int other = matmul ? Integer.MAX_VALUE : others.merge(row.getString("phase"), 1, Integer::sum);
            if (row.getInt("rank") > TOP && other > TOP) {
                continue;
            }
            Case kernel = Case.measuredHere(c.implementation());
            for (var parameter : c.parameters().entrySet()) {
                kernel = kernel.with(parameter.getKey(), parameter.getValue());
            }
            kernel = kernel.with("phase", row.getString("phase"))
                    .with("rank", row.getInt("rank"))
                    .with("kind", row.getString("kind"))
                    .with("kernel", row.getString("kernel"));
            stored.put(
                    kernel,
                    List.of(
                            Measurement.once("time", "ms", row.getDouble("time [ms]")),
                            Measurement.once("launches", "", row.getDouble("launches")),
                            Measurement.once("share", "", row.getDouble("share [%]") / 100)));
        }
        measurements.putAll(c, stored, provenance);
    }

    /** Returns the metrics needed to judge a profile: the profiling overhead and the GPU busy time of each case. */
    private static String summary(Measurements measurements, List<Case> cases) throws IOException {
        var columns = new ArrayList<>(cases.get(0).parameters().keySet());
        columns.add("implementation");
        Table table = Table.create();
        columns.forEach(name -> table.addColumns(StringColumn.create(name)));
        SHOWN.forEach((metric, heading) -> table.addColumns(DoubleColumn.create(heading)));
        Table stored = measurements.table();
        for (Case c : cases) {
            Row line = table.appendRow();
            columns.forEach(name -> line.setString(name, Separators.of(name, parameter(c, name))));
            for (Row row : stored) {
                boolean same = columns.stream()
                        .allMatch(name -> String.valueOf(row.getObject(name)).equals(parameter(c, name)));
                String heading = SHOWN.get(row.getString("metric"));
                if (same && heading != null && !row.isMissing("mean")) {
                    line.setDouble(heading, row.getDouble("mean"));
                }
            }
        }
        return AlignedText.of(table);
    }

    private static String parameter(Case c, String name) {
        return name.equals("implementation") ? c.implementation() : c.text(name);
    }

    /** Prints the first rows of the tables of a case and the location of its files. */
    private void describe(Path folder) throws IOException {
        if (!Files.exists(folder.resolve(ProfileWorkload.TRACE))) {
            return;
        }
        for (String kind : List.of("operators", "kernels")) {
            Path table = folder.resolve(kind + ".txt");
            if (Files.exists(table)) {
                out().println("\n" + kind + " of " + folder.getFileName() + " with the most time:");
                try (Stream<String> lines = Files.lines(table)) {
                    lines.limit(1 + MOST_ROWS).forEach(out()::println);
                }
            }
        }
        out().println("\nin " + folder + ": " + ProfileWorkload.TRACE + " (for ui.perfetto.dev), operators.csv"
                + (Files.exists(folder.resolve(ProfileWorkload.KERNELS)) ? ", " + ProfileWorkload.KERNELS : "")
                + (Files.exists(folder.resolve("flamegraph.svg")) ? ", flamegraph.svg, timeline.svg" : ""));
    }

    private static void draw(Path folder) throws IOException {
        Path stacks = folder.resolve(ProfileWorkload.STACKS);
        Path trace = folder.resolve(ProfileWorkload.TRACE);
        String name = String.valueOf(folder.getFileName());
        if (Files.exists(stacks)) {
            FlameGraph.of(FoldedStacks.read(stacks)).title(name).save(folder.resolve("flamegraph.svg"));
        }
        if (Files.exists(trace)) {
            Timeline.of(Trace.read(trace))
                    .lastStep()
                    .figure("timeline", "Timeline of one step: " + name)
                    .save(folder);
        }
    }
}
