package cs336.kernels.norms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Measurements;
import cs336.units.PretendedLoad;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import picocli.CommandLine;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.Table;

class NormsCommandTest {
    @TempDir
    Path folder;

    private final StringWriter out = new StringWriter();
    private final StringWriter err = new StringWriter();

    private int run(String... more) {
        var arguments = new ArrayList<>(
                List.of("--rows 3 --hidden 16 --passes 20 --device cpu --machine here --output".split(" ")));
        arguments.add(folder.toString());
        arguments.addAll(List.of(more));
        return new CommandLine(new NormsCommand())
                .setOverwrittenOptionsAllowed(true)
                .setOut(new PrintWriter(out))
                .setErr(new PrintWriter(err))
                .execute(arguments.toArray(String[]::new));
    }

    private Table stored() throws Exception {
        return Measurements.read(folder.resolve("here/rmsnorm_benchmarking.csv"));
    }

    @Test
    void everyImplementationIsStoredWithBytesAndBandwidth() throws Exception {
        try (var host = PretendedLoad.busy()) {
            assertEquals(0, run());
            assertEquals(1, host.warnings().size(), "one warning about the busy host");
        }
        Table table = stored();
        assertEquals(2 * (3 + 6 * 8), table.rowCount(), "dtypes × (copy + implementations)");
        for (String dtype : List.of("fp32", "bf16")) {
            for (NormImplementation implementation : NormImplementation.values()) {
                double ms = value(table, dtype, implementation.toString(), "forward-backward");
                double bytes = value(table, dtype, implementation.toString(), "forward-backward-bytes");
                assertEquals(5 * 3 * 16 * (dtype.equals("fp32") ? 4 : 2), bytes);
                assertEquals(
                        bytes / ms / 1e6,
                        value(table, dtype, implementation.toString(), "forward-backward-bandwidth"),
                        1e-6 * bytes / ms / 1e6);
            }
            double copy = value(table, dtype, "copy", "forward-bandwidth");
            assertEquals(
                    100 * value(table, dtype, "rmsnorm-fused", "forward-bandwidth") / copy,
                    value(table, dtype, "rmsnorm-fused", "forward-share-of-copy"),
                    1e-4);
        }
    }

    @Test
    void storedCasesAreMeasuredAgainOnlyOnRequest() throws Exception {
        assertEquals(0, run("--dtype", "fp32", "--implementation", "rmsnorm-fused"));
        double first = value(stored(), "fp32", "rmsnorm-fused", "forward");
        assertEquals(0, run("--dtype", "fp32", "--implementation", "rmsnorm-fused"));
        assertTrue(out.toString().contains("stored already"), out.toString());
        assertEquals(first, value(stored(), "fp32", "rmsnorm-fused", "forward"));
        assertEquals(0, run("--dtype", "fp32", "--implementation", "rmsnorm-fused", "--again"));
        assertEquals(3 + 8, stored().rowCount());
    }

    @Test
    void bothProtocolsAreStoredSideBySide() throws Exception {
        assertEquals(0, run("--dtype", "fp32", "--implementation", "plain", "--passes", "30"));
        assertEquals(
                0,
                run("--dtype", "fp32", "--implementation", "plain", "--passes", "30", "--synchronize", "group,each"));
        assertTrue(out.toString().contains("synchronized after groups of passes: stored already"), out.toString());
        var samples = new TreeMap<String, Integer>();
        for (Row row : stored()) {
            if (row.getString("metric").equals("forward-backward")) {
                samples.put(row.getString("synchronize"), row.getInt("n"));
            }
        }
        assertEquals(Map.of("group", 20, "each", 30), samples, "one sample per group or per pass");
        assertEquals(2 * (3 + 8), stored().rowCount());
    }

    private static double value(Table table, String dtype, String implementation, String metric) {
        for (Row row : table) {
            if (row.getString("dtype").equals(dtype)
                    && row.getString("implementation").equals(implementation)
                    && row.getString("metric").equals(metric)) {
                assertEquals("ok", row.getString("status"));
                return row.getDouble("median");
            }
        }
        throw new AssertionError("no row for " + dtype + " " + implementation + " " + metric);
    }

    @Test
    void runningOutOfMemoryIsStoredAndDuplicatesAreMeasuredOnce() throws Exception {
        String large =
                "--rows 1000000000 --hidden 1000000,1000000 --dtype fp32,fp32 --device cpu --machine here --output ";
        assertEquals(
                0,
                new CommandLine(new NormsCommand()).setOut(new PrintWriter(out)).execute((large + folder).split(" ")));
        assertEquals(3 + 6 * 8, stored().rowCount());
        assertTrue(stored().stringColumn("status").asList().stream().allMatch("oom"::equals));
        assertEquals(1, out.toString().lines().count(), out.toString());
    }

    @Test
    void numbersThatOverflowAreRefused() {
        assertEquals(2, run("--rows", "2147483647", "--hidden", "2147483647"));
        assertTrue(
                err.toString().contains("--rows 2147483647 × --hidden 2147483647 must be at most 2^56 elements"),
                err.toString());
    }

    @ParameterizedTest
    @CsvSource({
        "--rows, 0, '--rows must be at least 1, not 0'",
        "--hidden, 0, '--hidden must be at least 1, not 0'",
        "--passes, 19, '--passes must be at least 20, not 19'",
        "--dtype, fp64, '--dtype ''fp64'' is unknown; known: fp32, bf16, fp16'",
        "--implementation, quick, 'implementation ''quick'' is unknown'",
        "--synchronize, never, '--synchronize ''never'' is unknown; known: group, each'",
        "--device, tpu, 'device ''tpu'' is unknown'",
        "--problem, a/b, '--problem must be letters'",
    })
    void invalidOptionsAreNamed(String option, String value, String message) {
        assertEquals(2, run(option, value));
        assertTrue(err.toString().contains(message), err.toString());
    }
}
