package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;

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
    void incompleteSamplesDoNotReplaceACompleteResult() throws IOException {
        var first = new SampleCollector();
        first.add(PEAK, 1);
        store.put(MEASURED, first);
        assertEquals(List.of("peak 1"), stored());
        first.add(TOTAL, 2);
        store.put(MEASURED, first);
        assertEquals(List.of("peak 1", "total 2"), stored());

        var again = new SampleCollector();
        again.add(PEAK, 3);
        store.put(MEASURED, again);
        assertEquals(List.of("peak 1", "total 2"), stored());
        again.add(TOTAL, 4);
        store.put(MEASURED, again);
        assertEquals(List.of("peak 3", "total 4"), stored());
    }

    private List<String> stored() throws IOException {
        return Measurements.read(store.path()).stream()
                .map(row -> row.getString("metric") + " " + (int) row.getNumber("median"))
                .toList();
    }
}
