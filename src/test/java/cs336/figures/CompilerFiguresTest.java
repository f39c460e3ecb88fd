package cs336.figures;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.bench.Project;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import org.junit.jupiter.api.Test;

class CompilerFiguresTest {
    private static Figure figure() throws IOException {
        return CompilerFigures.comparedWithTorchCompile(MeasurementQuery.of(Project.path("data/measurements/h200")));
    }

    @Test
    void storedMeasurementsGiveTheStoredFigure() throws IOException {
        Figure figure = figure();
        assertEquals(Files.readString(Project.path("figures/" + figure.name() + ".svg")), figure.svg());
    }

    @Test
    void everyBarNamesItsMachineAndCommit() throws IOException {
        MarkOrigins.assertNamed(List.of(figure()));
    }
}
