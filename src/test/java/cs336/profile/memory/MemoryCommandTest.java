package cs336.profile.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.CommandTest;
import cs336.bench.Measurements;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.Table;

class MemoryCommandTest extends CommandTest {
    private int run(String arguments) {
        return run(
                new MemoryCommand(),
                arguments,
                "--folder",
                folder.resolve("memory").toString());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "--pass backward | pass 'backward' is unknown; known: forward, forward-graph, forward-backward, step",
                "--size huge | size 'huge' is unknown; known: small, medium, large, xl, 2.7B. --d-model, --d-ff, --layers, --heads and --vocab set other sizes",
                "--batch 0 | --batch must be at least 1, not 0",
                "--context 8,0 | --context must be at least 1, not 0",
                "--d-ff 0 | --d-ff must be at least 1, not 0",
                "--d-model 10 --heads 3 | --heads 3 does not divide --d-model 10",
            })
    void wrongUseIsReportedInOneLineWithExitCodeTwo(String arguments, String message) {
        assertRejected(message, run(arguments));
    }

    @Test
    void aCaseStoresItsCategoriesAndWritesItsFiles() throws IOException {
        String tiny =
                "--d-model 16 --layers 2 --heads 2 --vocab 50 --batch 2 --context 16 --device cpu --machine here ";
        assertEquals(0, run(tiny + "--pass step"), err.toString());
        assertEquals(List.of(), host.warnings(), "nothing is timed");
        String reported = progress.toString(StandardCharsets.UTF_8);
        assertTrue(reported.matches("(?s).* peak memory [\\d.,]+ kB · .*"), reported);
        Table stored = Measurements.read(folder.resolve("here/memory_profiling.csv"));
        double peak = 0;
        double categories = 0;
        double predicted = 0;
        for (Row row : stored) {
            String metric = row.getString("metric");
            assertEquals("ok", row.getString("status"), metric);
            if (metric.equals("peak-memory")) {
                peak = row.getDouble("mean");
            } else if (metric.equals("predicted-peak-memory")) {
                predicted = row.getDouble("mean");
            } else if (metric.startsWith("peak-") && !metric.startsWith("peak-memory")) {
                categories += row.getDouble("mean");
            }
        }
        assertEquals(peak, categories);
        assertEquals(peak, predicted, 0.02 * peak);
        Path left = folder.resolve("memory/d16-ff64-l2-h2-v50-batch2-16-fp32-step");
        assertEquals(
                peak,
                MemorySnapshot.read(left.resolve("memory_snapshot.pickle")).peakBytes());
        assertTrue(Files.readString(left.resolve("timeline.svg")).contains("</svg>"));
        assertTrue(Files.readString(left.resolve("largest.csv")).startsWith("bytes,count,category,origin\n"));
    }
}
