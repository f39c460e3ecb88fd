package cs336.scaling;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.CommandTest;
import cs336.bench.Measurements;
import cs336.bench.Project;
import java.io.IOException;
import java.nio.file.Files;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.Table;

class AccountingCommandTest extends CommandTest {
    @Test
    void aMeshIsReportedTensorByTensorAndCollectiveByCollective() {
        assertEquals(
                0, runWithoutOutput(new AccountingCommand(), "--shards 16 --tensor 8 --pipeline 2 --tokens 32768"));
        String shown = out.toString();
        for (String expected : new String[] {
            "219,848,638,464 parameters, on FSDP 16 × TP 8 × PP 2: 256 devices",
            "master weights",
            "fits",
            "reduce-scatter",
            "bubble: 50 %"
        }) {
            assertTrue(shown.contains(expected), expected + " in\n" + shown);
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "--stage 4 | --stage must be 1, 2 or 3, not 4",
                "--tensor 0 | --tensor must be at least 1, not 0",
                "--micro-batches 0 | --micro-batches must be at least 1, not 0",
                "--tokens 0 | --tokens must be at least 1, not 0",
                "--pipeline 127 | --pipeline must be at most 126, the blocks of XXL, not 127",
                "--chip h300 | --chip 'h300' is unknown; known: h100, h200, tpu-v5p",
                "--answers --shards 3 | --shards has no effect with --answers",
                "--simulate nowhere --chip h100 | --chip has no effect with --simulate",
                "--data 2147483647 --shards 2 | data × shards × tensor × pipeline must be at most 2147483647 devices, not"
                        + " 4.29e+09",
                "--tokens 2147483647 --micro-batches 2147483647 --data 9 | --tokens 2147483647 with --micro-batches"
                        + " 2147483647 on DP 9 exceeds the range of 64-bit integers",
            })
    void wrongUseFailsWithOneLineThatNamesTheOption(String arguments, String message) {
        assertRejected(message, runWithoutOutput(new AccountingCommand(), arguments));
    }

    @Test
    void aMissingMachineIsReported() {
        assertEquals(2, run(new AccountingCommand(), "--simulate nowhere"));
        assertTrue(err.toString().startsWith("no folder of measurements"), err.toString());
    }

    @Test
    void nothingIsStoredIfMeasurementsAreMissing() throws IOException {
        Files.createDirectories(folder.resolve("empty"));
        assertEquals(2, run(new AccountingCommand(), "--answers --simulate empty"));
        assertTrue(err.toString().startsWith("no measurements in "), err.toString());
        assertEquals("", out.toString());
        assertFalse(Files.exists(folder.resolve("on-paper")));
    }

    /** The writeup reads the stored numbers, so they must be the current ones. */
    @Test
    void storedAnswersAreUpToDate() throws IOException {
        assertEquals(0, run(new AccountingCommand(), "--answers"));
        Table fresh = Measurements.read(folder.resolve("on-paper/communication_accounting.csv"));
        Table stored = Measurements.read(Project.path("data/measurements/on-paper/communication_accounting.csv"));
        assertEquals(CommunicationAccounting.STANDARD.answers().size(), fresh.rowCount());
        assertEquals(fresh.rowCount(), stored.rowCount());
        for (int i = 0; i < fresh.rowCount(); i++) {
            Row a = fresh.row(i);
            Row b = stored.row(i);
            for (String column : new String[] {"part", "metric", "unit"}) {
                assertEquals(a.getString(column), b.getString(column));
            }
            assertEquals(a.getInt("tokens"), b.getInt("tokens"));
            assertEquals(a.getInt("tensor"), b.getInt("tensor"));
            assertEquals(a.getDouble("mean"), b.getDouble("mean"));
        }
    }
}
