package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Case;
import cs336.bench.Measurements;
import cs336.bench.Metric;
import cs336.torch.Device;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MeasurementStoreTest {
    private static final Metric PEAK = Metric.bytes("peak"), TOTAL = Metric.ms("total");
    private static final Case MEASURED =
            Case.measuredHere("plain").with("size", "small").yields(PEAK, TOTAL);

    @TempDir
    private Path folder;

    private MeasurementStore store;

    @BeforeEach
    void open() {
        store = MeasurementStore.of(new MeasurementFile(folder.toString(), "any", "sharding", true), Device.cpu(), 0);
    }

    @Test
    void anInterruptedMeasurementIsMeasuredAgainAndReplacesNoCompleteResult() throws IOException {
        var first = new SampleCollector();
        first.add(PEAK, 1);
        store.put(MEASURED, first, false, false);
        assertEquals(List.of("peak 1 incomplete"), stored());
        first.add(TOTAL, 2);
        store.put(MEASURED, first, false, false);
        assertEquals(List.of("peak 1 incomplete", "total 2 incomplete"), stored());
        assertFalse(store.measurements().holds(MEASURED));
        store.put(MEASURED, first, true, false);
        assertEquals(List.of("peak 1 ok", "total 2 ok"), stored());
        assertTrue(store.measurements().holds(MEASURED));

        var again = new SampleCollector();
        again.add(PEAK, 3);
        store.put(MEASURED, again, true, false);
        assertEquals(List.of("peak 1 ok", "total 2 ok"), stored());
        again.add(TOTAL, 4);
        store.put(MEASURED, again, false, false);
        assertEquals(List.of("peak 1 ok", "total 2 ok"), stored());
        store.put(MEASURED, again, true, false);
        assertEquals(List.of("peak 3 ok", "total 4 ok"), stored());
    }

    private List<String> stored() throws IOException {
        return Measurements.read(store.path()).stream()
                .map(row ->
                        row.getString("metric") + " " + (int) row.getNumber("median") + " " + row.getString("status"))
                .toList();
    }
}
