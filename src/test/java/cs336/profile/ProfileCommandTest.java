package cs336.profile;

import static cs336.profile.TraceText.hostTime;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.CommandTest;
import cs336.bench.Measurements;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tech.tablesaw.api.Table;

class ProfileCommandTest extends CommandTest {
    private static final String TINY =
            "--d-model 16 --layers 2 --heads 2 --vocab 20 --batch 2 --context 8 --pass step --steps 2"
                    + " --device cpu --machine here ";

    private int run(String arguments) {
        return run(
                new ProfileCommand(),
                arguments,
                "--folder",
                folder.resolve("profiles").toString());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "--size huge | size 'huge' is unknown; known: small, medium, large, xl, 2.7B. --d-model, --d-ff, --layers, --heads and --vocab set other sizes",
                "--year 2023 | year 2023 has no model; known: 2024, 2025",
                "--context 0 | --context must be at least 1, not 0",
                "--steps 0 | --steps must be at least 1, not 0",
                "--warmup -1 | --warmup must be at least 0, not -1",
                "--time-limit 0 | --time-limit must be at least 1, not 0",
                "--heads 7 | --heads 7 does not divide --d-model 768",
                "--pass backward | pass 'backward' is unknown; known: forward, forward-graph, forward-backward, step",
            })
    void wrongUseIsReportedInOneLineThatNamesTheOption(String arguments, String message) {
        assertEquals(2, run(arguments + " --device cpu"));
        assertEquals(message, err.toString());
    }

    @Test
    void aCaseStoresItsMetricsAndWritesTablesTraceAndFigures() throws IOException {
        assertEquals(0, run(TINY));
        Table stored = Measurements.of(folder, "here", "profiling").table();
        assertTrue(
                stored.stringColumn("metric").asList().containsAll(List.of("stopwatch", "profiled", "optimizer-host")));
        assertTrue(stored.stringColumn("status").asList().stream().allMatch("ok"::equals));
        assertTrue(out.toString().contains("step with profiler (ms)"), out.toString());

        Path files = folder.resolve("profiles/d16-ff64-l2-h2-v20-batch2-8-fp32-step");
        Profile profile = Profile.read(files.resolve("trace.json.gz"));
        assertEquals(1, profile.steps(), "only the last step");
        assertEquals(1, profile.ops().row("layers.1").calls());
        assertEquals(
                hostTime(profile.trace()),
                FoldedStacks.read(files.resolve("stacks.folded")).total());
        assertEquals(profile.ops() + "\n", Files.readString(files.resolve("operators.txt")));
        assertTrue(Files.readString(files.resolve("flamegraph.svg")).contains("<script"));
        assertTrue(Files.readString(files.resolve("timeline.svg")).startsWith("<svg"));
        assertFalse(Files.exists(files.resolve("kernels.csv")), "no GPU was used");
        assertTrue(out.toString().contains("trace.json.gz (for ui.perfetto.dev), operators.csv, flamegraph.svg"));
        String printed = out.toString();
        String[] operators = printed.substring(printed.indexOf("operators of d16"))
                .split("\n\n")[0]
                .split("\n");
        assertEquals(1 + 1 + 10, operators.length, printed);

        Files.delete(files.resolve("flamegraph.svg"));
        assertEquals(0, run(TINY + "--draw-only"));
        assertTrue(Files.exists(files.resolve("flamegraph.svg")), "drawn from the existing folder");
    }

    @Test
    void theLongestKernelsAndTheLongestOtherThanGemmsAreStored() throws IOException {
        String forward = TINY.replace("--pass step", "--pass forward");
        var table = new StringBuilder("phase,rank,kind,launches,time [ms],share [%],kernel,name\n");
        String[] kinds = {
            "matmul", "matmul", "matmul", "matmul", "softmax", "copy", "matmul", "elementwise", "reduction"
        };
        for (int rank = 1; rank <= kinds.length; rank++) {
            table.append("forward,%d,%s,2,%s,12.5,k%d,\"void k<int, float>(int)\"%n"
                    .formatted(rank, kinds[rank - 1], 10.5 - rank, rank));
        }
        Path left = Files.createDirectories(folder.resolve("profiles/d16-ff64-l2-h2-v20-batch2-8-fp32-forward"));
        Files.writeString(left.resolve("kernels.csv"), table); // as if a GPU had been used
        for (String again : List.of("", "--again", "")) {
            assertEquals(0, run(forward + again));
            Table stored = Measurements.of(folder, "here", "profiling_kernels").table();
            assertEquals(
                    List.of("k1", "k2", "k3", "k5", "k6", "k8"),
                    stored.stringColumn("kernel").unique().asList().stream()
                            .sorted()
                            .toList());
            assertEquals(6 * 3, stored.rowCount(), "time, launches and fraction of each, once");
            assertEquals(9.5, stored.doubleColumn("mean").get(0));
            assertEquals(0.125, stored.doubleColumn("mean").get(2));
        }
    }
}
