package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.units.UnitFactors;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ResultTableTest {
    private static final Metric TOTAL = Metric.ms("total"),
            PEAK = Metric.bytes("peak-memory"),
            MESSAGES = new Metric("messages", ""),
            RECOMPUTED = new Metric("recomputed-blocks", "blocks"),
            COMMUNICATION = new Metric("communication-share", "%");

    @TempDir
    Path folder;

    private Measurements measurements;

    @BeforeEach
    void open() {
        measurements = Measurements.of(folder, "h200", "table");
    }

    private Case store(String mode, double peak) throws IOException {
        Case c = Case.of(Workload.class, "plain")
                .with("mode", mode)
                .with("bucket_mb", 25)
                .yields(TOTAL, PEAK, MESSAGES, RECOMPUTED, COMMUNICATION);
        List<Measurement> rows = List.of(
                new Measurement(TOTAL, Summary.of(8, 8), Status.OK),
                Measurement.of(Samples.once(PEAK, peak)),
                Measurement.of(Samples.once(MESSAGES, 21)),
                Measurement.of(Samples.once(RECOMPUTED, 1200)),
                Measurement.of(Samples.once(COMMUNICATION, 79)));
        measurements.put(c, rows, MeasurementsTest.HERE);
        return c;
    }

    @Test
    void headersAreWordsWithUnitsAndCountsHaveNoDecimals() throws IOException {
        assertEquals("""
                mode  bucket (MB)  total (ms)  messages  recomputed blocks  communication (%)  peak memory (GiB)
                flat  25           8.000 ± 0   21        1,200              79.00              1.500""", table(store("flat", 1.5 * UnitFactors.GIB)));
    }

    @Test
    void memoryIsInMebibytesIfAllOfItIsSmall() throws IOException {
        Case tiny = store("naive", 1_048_576), small = store("flat", 107_374_182);
        assertTrue(table(tiny, small).contains("peak memory (MiB)\n"), table(tiny, small));
        assertTrue(table(tiny, small).contains("  1.000\n"), table(tiny, small));
        Case large = store("overlapped", 107_374_183);
        assertTrue(table(tiny, large).contains("peak memory (GiB)\n"), table(tiny, large));
        assertTrue(table(tiny, large).contains("  0.0009766\n"), table(tiny, large));
        assertTrue(table(tiny).endsWith("  1.000"), "rows that are not shown do not count");
    }

    private String table(Case... cases) throws IOException {
        return ResultTable.of(measurements, List.of(cases));
    }
}
