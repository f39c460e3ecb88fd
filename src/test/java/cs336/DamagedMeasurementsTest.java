package cs336;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.AttackCount;
import cs336.bench.Project;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.regex.Pattern;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Commands that read stored measurements in which one cell is damaged. A message about a number names the file and the
 * line of the cell.
 */
class DamagedMeasurementsTest {
    private static final Pattern NUMBER = Pattern.compile("-?\\d+(\\.\\d+)?");
    private static final String[] DAMAGES = {"x", "1.5.5", "12e", "\0", "²"};

    @TempDir
    Path folder;

    @ParameterizedTest
    @CsvSource({
        "ddp --predict-buckets h200-x4, h200-x4/distributed_communication_single_node.csv",
        "accounting --simulate h200-x4, h200-x4/ddp_benchmarking.csv",
        "fsdp --predict h200-x2, h200-x2/fsdp_accounting.csv",
        "fsdp --predict h200-x2, h200-x2/fsdp_accounting_overlap.csv",
        "fsdp --predict h200-x2, on-paper/scaling_fit.csv",
    })
    void damagedNumberIsReportedWithItsPlace(String command, String problem) throws IOException {
        for (String each : List.of("h200", "h200-x2", "h200-x4", "on-paper")) {
            Path copies = Files.createDirectories(folder.resolve(each));
            try (var files = Files.newDirectoryStream(Project.path("data/measurements/" + each), "*.csv")) {
                for (Path stored : files) {
                    Files.copy(stored, copies.resolve(stored.getFileName()));
                }
            }
        }
        Path file = folder.resolve(problem);
        List<String> lines = Files.readAllLines(file);
        int columns = lines.get(0).substring(0, lines.get(0).indexOf(",status")).split(",").length;
        var random = new Random(336);
        int damaged = 0;
        for (int column = 0; column < columns; column++) {
            int line = 1 + random.nextInt(lines.size() - 1);
            String[] cells = lines.get(line).split(",", -1);
            if (NUMBER.matcher(cells[column]).matches()) {
                cells[column] = DAMAGES[random.nextInt(DAMAGES.length)];
                var changed = new ArrayList<>(lines);
                changed.set(line, String.join(",", cells));
                Files.write(file, changed);
                assertReported(command, file + ", line " + (line + 1) + ": ");
                damaged++;
            }
        }
        assertTrue(damaged > 0);
        AttackCount.inputs(damaged, "damaged numbers in " + problem + " for " + command.split(" ")[0]);
    }

    private void assertReported(String command, String place) {
        var errors = new StringWriter();
        String[] arguments = (command + " --output " + folder).split(" ");
        int exitCode = Main.commandLine(arguments)
                .setOut(new PrintWriter(new StringWriter()))
                .setErr(new PrintWriter(errors))
                .execute(arguments);
        if (exitCode != 0) { // the row may not be used
            assertTrue(errors.toString().startsWith("cs336: " + place), place + " in " + errors);
            assertEquals(1, errors.toString().lines().count(), errors.toString());
        }
    }
}
