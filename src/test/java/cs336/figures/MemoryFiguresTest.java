package cs336.figures;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Project;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import java.io.IOException;
import java.nio.file.Files;
import org.junit.jupiter.api.Test;

class MemoryFiguresTest {
    private static final MeasurementQuery H200 = MeasurementQuery.of(Project.path("data/measurements/h200"));

    @Test
    void storedPeaksGiveTheStoredFigure() throws IOException {
        Figure figure = MemoryFigures.peaks(H200);
        assertEquals(Files.readString(Project.path("figures/" + figure.name() + ".svg")), figure.svg());
    }

    @Test
    void aContextWithoutAStoredTimelineIsNamed() {
        var error = assertThrows(IllegalArgumentException.class, () -> MemoryFigures.steps(H200, 128));
        assertTrue(error.getMessage().startsWith("context: no timeline is stored for context 128: "));
        assertTrue(error.getMessage().contains("2.7B-128-fp32-step/timeline.csv"), error.getMessage());
    }
}
