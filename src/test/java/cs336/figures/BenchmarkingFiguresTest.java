package cs336.figures;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.bench.Project;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;

class BenchmarkingFiguresTest {
    private static List<Figure> all() throws IOException {
        MeasurementQuery h200 = MeasurementQuery.of(Project.path("data/measurements/h200"));
        return List.of(
                BenchmarkingFigures.synchronization(h200, "small"),
                BenchmarkingFigures.phases(h200),
                BenchmarkingFigures.firstSteps(h200),
                BenchmarkingFigures.comparedWithPyTorch(h200));
    }

    @Test
    void storedMeasurementsGiveTheStoredFigures() throws IOException {
        for (Figure figure : all()) {
            Path stored = Project.path("figures/" + figure.name() + ".svg");
            assertEquals(Files.readString(stored), figure.svg(), figure.name());
        }
    }

    @Test
    void everyPointNamesItsMachineAndCommit() throws IOException {
        MarkOrigins.assertNamed(all());
    }

    @Test
    void figuresDoNotDependOnTheLocale() throws IOException {
        List<String> here = all().stream().map(Figure::svg).toList();
        Locale before = Locale.getDefault();
        try {
            Locale.setDefault(Locale.forLanguageTag("ar-SA")); // has its own digits
            assertEquals(here, all().stream().map(Figure::svg).toList());
        } finally {
            Locale.setDefault(before);
        }
    }
}
