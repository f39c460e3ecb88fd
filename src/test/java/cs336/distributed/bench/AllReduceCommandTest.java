package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.CommandTest;
import cs336.bench.Measurements;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.Table;

class AllReduceCommandTest extends CommandTest {
    private static final String SMALL = "--device cpu --machine here --warmup 2 --steps 3 --megabytes ";

    private int run(String arguments) {
        return run(new AllReduceCommand(), arguments);
    }

    private Table stored() throws IOException {
        return Measurements.read(folder.resolve("here/distributed_communication_single_node.csv"));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "--backend mpi | backend 'mpi' is unknown; known: gloo, nccl",
                "--backend nccl | --backend nccl needs --device cuda, not cpu",
                "--full --megabytes 1 | --full cannot be combined with --megabytes",
                "--machine a/b | --machine must be letters, digits, '.', '_' and '-', not 'a/b'",
                "--processes 2,0 | --processes must be at least 1, not 0",
                "--megabytes 1,-1 | --megabytes must be a positive multiple of 4 bytes in MB, such as 0.512, not -1",
                "--megabytes 0.000001 | --megabytes must be a positive multiple of 4 bytes in MB, such as 0.512, not 0.000001",
                "--megabytes 99999999999999 | --megabytes must be at most 9223372036854, not 99999999999999",
                "--megabytes much | --megabytes must be a positive multiple of 4 bytes in MB, such as 0.512, not much",
                "--emulate-nodes 2 --processes 2,3 | --processes must be divisible by --emulate-nodes 2, not 3",
                "--emulate-nodes 1 | --emulate-nodes must be at least 2, not 1",
                "--emulate-nodes 2 | --emulate-nodes needs --backend nccl, not gloo, which always uses sockets",
                "--emulate-nodes 2 --join | --emulate-nodes cannot be combined with --join, whose nodes are real",
                "--warmup 1 | --warmup must be at least 2, not 1",
                "--steps 2 | --steps must be at least 3, not 2",
                "--seconds 0 | --seconds must be above 0, not 0.0",
                "--timeout 0 | --timeout must be at least 1, not 0",
                "--loading-timeout 0 | --loading-timeout must be at least 1, not 0",
                "--problem a/b | --problem must be letters, digits, '_' and '-', not 'a/b'",
            })
    void invalidOptionsAreOneLineAndExitCodeTwo(String arguments, String message) {
        assertRejected(message, run("--device cpu " + arguments));
    }

    @ParameterizedTest
    @ValueSource(strings = {"1e10", "9000000000000"})
    void aTensorLargerThanTheMemoryIsRejectedBeforeAnyRankStarts(String megabytes) {
        assertEquals(2, run("--device cpu --processes 1,3 --megabytes 1," + megabytes));
        assertTrue(
                err.toString()
                        .matches("--megabytes " + megabytes
                                + " on 3 ranks takes [\\d,]+ MB, but this machine has [\\d,]+ MB of memory"),
                err.toString());
    }

    @Test
    void aSingleGpuForAllRanksIsRejected() {
        assertEquals(2, run("--device cuda:0"));
        assertEquals(
                "--device must be best, cpu or cuda (each rank selects its own GPU), not 'cuda:0'", err.toString());
    }

    @Test
    void sizesAreMeasuredStoredAndPrintedOnce() throws IOException {
        assertEquals(0, run(SMALL + "0.004,0.512"), err + " " + progress);
        assertEquals(1, host.warnings().size(), "one warning about the busy host");
        assertEquals(3, out.toString().lines().count(), "a header and two sizes: " + out);
        Table first = stored();
        assertEquals(
                List.of("backend", "on", "nodes", "processes", "megabytes", "implementation", "metric"),
                first.columnNames().subList(0, 7));
        assertEquals(2 * 3, first.rowCount(), "time and two bandwidths");
        for (Row row : first) {
            assertEquals(
                    "gloo cpu 1 2",
                    String.join(
                            " ",
                            row.getString("backend"),
                            row.getString("on"),
                            "" + row.getInt("nodes"),
                            "" + row.getInt("processes")));
            assertEquals("ok", row.getString("status"));
            assertTrue(row.getDouble("median") > 0);
        }

        out.getBuffer().setLength(0);
        assertEquals(0, run(SMALL + "0.512,1"), err + " " + progress);
        assertEquals(2, out.toString().lines().count(), "only the size that was missing: " + out);
        String said = progress.toString(StandardCharsets.UTF_8);
        assertTrue(said.contains("[0] 1 of 2 cases stored already in " + folder), said);
        Table second = stored();
        assertTrue(said.contains("[0] all-reduce [2/2] java backend=gloo"), said);
        assertEquals(2, host.warnings().size(), "each of both runs has a warning");
        assertEquals(0, run(SMALL + "0.512"), err + " " + progress);
        assertEquals(2, host.warnings().size(), "the third run times nothing");
        assertEquals(3 * 3, second.rowCount());
        assertEquals(first.toString(), second.first(first.rowCount()).toString(), "stored rows are unchanged");
    }
}
