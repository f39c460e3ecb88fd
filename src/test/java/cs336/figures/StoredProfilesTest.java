package cs336.figures;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Project;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import cs336.profile.DeviceEvent;
import cs336.profile.DeviceEventKind;
import cs336.profile.FlameGraph;
import cs336.profile.FoldedStacks;
import cs336.profile.HostEvent;
import cs336.profile.KernelKind;
import cs336.profile.Trace;
import cs336.profile.memory.MemoryTimeline;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import tech.tablesaw.api.Row;

/** The stored traces, stacks and timelines, and the rows that name their machine and commit. */
class StoredProfilesTest {
    private static final MeasurementQuery ONE = measurements("h200");
    private static final MeasurementQuery TWO = measurements("h200-x2");
    private static final MeasurementQuery FOUR = measurements("h200-x4");

    private static MeasurementQuery measurements(String machine) {
        return MeasurementQuery.of(Project.path("data/measurements/" + machine));
    }

    private static List<Figure> figures;

    @BeforeAll
    static void draw() throws IOException {
        figures = new ArrayList<>(List.of(
                ProfilingFigures.layer(ONE, "layers.1"),
                ProfilingFigures.timeline(ONE),
                MemoryFigures.forward(ONE, 512),
                MemoryFigures.steps(ONE, 512),
                MemoryFigures.steps2024(ONE),
                FsdpFigures.step(TWO),
                FsdpFigures.block(TWO)));
        for (String mode : List.of("naive", "flat", "overlapped")) {
            figures.add(DataParallelFigures.timeline(FOUR, mode, 0, 128));
        }
        figures.add(DataParallelFigures.timeline(FOUR, "flat", 0, 512));
        figures.add(DataParallelFigures.timeline(FOUR, "bucketed", 100, 128));
        figures.add(DataParallelFigures.timeline(FOUR, "bucketed", 100, 512));
    }

    @Test
    void giveTheStoredFigures() throws IOException {
        for (Figure figure : figures) {
            Path stored = Project.path("figures/" + figure.name() + ".svg");
            assertEquals(Files.readString(stored), figure.svg(), figure.name());
        }
        FlameGraph graph = ProfilingFigures.flameGraph(ONE);
        assertEquals(Files.readString(Project.path("figures/profiling-flame-graph.svg")), graph.svg());
        assertTrue(graph.svg().contains("\"origin\":\"NVIDIA H200, commit "));
    }

    @Test
    void everyMarkNamesItsMachineAndCommit() {
        MarkOrigins.assertNamed(figures);
    }

    @Test
    void tracesWereRecordedWithTheRowsThatNameTheirCommits() throws IOException {
        requireRecordedWith(
                ONE,
                "profiling/small-128-fp32-forward/trace.json.gz",
                "profiling[size=small, year=2025, context=128,"
                        + " dtype=fp32, pass=forward, implementation=plain, metric=total-kernels]");
        requireRecordedWith(
                TWO,
                "fsdp/8b-rank0.json.gz",
                "fsdp_accounting_overlap[size=d4096-ff11008-l34-h32-v151936, mode=fsdp, metric=communication]");
        for (String mode : List.of("naive", "flat", "overlapped", "bucketed")) {
            int bucket = mode.equals("bucketed") ? 100 : 0;
            for (int context : mode.equals("flat") || bucket > 0 ? new int[] {128, 512} : new int[] {128}) {
                String row =
                        "ddp_benchmarking_overlap[size=xl, mode=%s, bucket_mb=%d, context=%d, metric=communication]"
                                .formatted(mode, bucket, context);
                String label = mode + (bucket > 0 ? "-100mb" : "") + (context == 512 ? "-512-tokens" : "");
                double least = Double.POSITIVE_INFINITY;
                for (int rank = 0; rank < 2; rank++) {
                    Trace trace = requireRecordedWith(FOUR, "ddp/%s-rank%d.json.gz".formatted(label, rank), row);
                    least = Math.min(least, kernels(trace, KernelKind.COMMUNICATION));
                }
                requireMeasured(FOUR, row, least);
            }
        }
    }

    @Test
    void profilesHaveTheKernelTimesOfTheirRows() throws IOException {
        requireMeasured(
                ONE,
                "profiling[size=small, year=2025, context=128, dtype=fp32, pass=forward, implementation=plain, metric=total-kernels]",
                kernels(Trace.read(ONE.folder().resolve("profiling/small-128-fp32-forward/trace.json.gz")), null));
        requireMeasured(
                ONE,
                "profiling[size=xl, year=2024, context=128, dtype=fp32, pass=forward, implementation=plain, metric=total-kernels]",
                FoldedStacks.read(ONE.folder().resolve("profiling/2024-xl-128-fp32-forward/stacks.folded"))
                                .total()
                        / 1e6);
    }

    @Test
    void memoryTimelinesHaveThePeaksOfTheirRows() throws IOException {
        for (String pass : List.of("fp32-forward", "fp32-forward-graph", "fp32-step", "bf16-step")) {
            requirePeak("2.7B-512-" + pass, 2025, 512, pass);
        }
        for (String pass : List.of("fp32-step", "bf16-step")) {
            requirePeak("2024-2.7B-128-" + pass, 2024, 128, pass);
        }
    }

    private static void requirePeak(String folder, int year, int context, String pass) throws IOException {
        MemoryTimeline timeline = MemoryTimeline.read(ONE.folder().resolve("memory/" + folder + "/timeline.csv"));
        String[] parts = pass.split("-", 2);
        assertEquals(
                ONE.quantity(
                                "memory_profiling[size=2.7B, year=%d, context=%d, implementation=plain, dtype=%s, pass=%s, metric=peak-memory]"
                                        .formatted(year, context, parts[0], parts[1]))
                        .value(),
                timeline.peak().total(),
                folder);
    }

    /** Returns the summed duration of kernels of a kind, or of all kinds if it is null, in milliseconds. */
    private static double kernels(Trace trace, KernelKind kind) {
        return trace.work().stream()
                        .filter(event -> event.kind() == DeviceEventKind.KERNEL)
                        .filter(event -> kind == null || event.kernelKind() == kind)
                        .mapToLong(DeviceEvent::duration)
                        .sum()
                / 1e6;
    }

    private static void requireMeasured(MeasurementQuery numbers, String row, double milliseconds) {
        assertTrue(milliseconds >= numbers.quantity(row + ".min").value() - 1e-4, row + ": " + milliseconds);
        assertTrue(milliseconds <= numbers.quantity(row + ".max").value() + 1e-4, row + ": " + milliseconds);
    }

    /** Returns a trace, and requires that its end and the date of a row are less than a minute apart. */
    private static Trace requireRecordedWith(MeasurementQuery numbers, String file, String selection)
            throws IOException {
        Trace trace = Trace.read(numbers.folder().resolve(file));
        long end = trace.baseTime()
                + trace.host().stream().mapToLong(HostEvent::end).max().orElseThrow();
        Row row = numbers.select(selection).row(0);
        var apart = Duration.between(
                        Instant.ofEpochSecond(0, end), Instant.parse(String.valueOf(row.getObject("date"))))
                .abs();
        assertTrue(apart.compareTo(Duration.ofMinutes(1)) < 0, file + " and " + selection + " are " + apart + " apart");
        return trace;
    }
}
