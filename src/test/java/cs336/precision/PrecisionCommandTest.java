package cs336.precision;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Measurements;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;
import tech.tablesaw.api.Table;

class PrecisionCommandTest {
    @Test
    void everyExperimentIsStoredAndPrintedAsASeparateTable(@TempDir Path folder) throws IOException {
        var out = new StringWriter();
        var progress = new ByteArrayOutputStream();
        PrintStream console = System.err;
        System.setErr(new PrintStream(progress, true, StandardCharsets.UTF_8));
        try {
            int code = new CommandLine(new PrecisionCommand())
                    .setOut(new PrintWriter(out))
                    .execute("--device", "cpu", "--machine", "here", "--output", folder.toString());
            assertEquals(0, code, progress.toString(StandardCharsets.UTF_8));
        } finally {
            System.setErr(console);
        }
        Table table = Measurements.read(folder.resolve("here/mixed_precision.csv"));
        assertTrue(table.stringColumn("status").allMatch("ok"::equals));
        assertEquals(
                Stream.of(Experiment.values()).map(Experiment::toString).collect(Collectors.toSet()),
                table.stringColumn("experiment").asSet());
        long headings = out.toString()
                .lines()
                .filter(line -> line.startsWith("experiment "))
                .count();
        assertEquals(Experiment.values().length, headings, out.toString());
    }
}
