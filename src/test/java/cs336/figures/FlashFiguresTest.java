package cs336.figures;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cs336.bench.Project;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.knowm.xchart.XYChart;
import org.knowm.xchart.XYSeries;

class FlashFiguresTest {
    private static final List<String> IMPLEMENTATIONS = List.of(
            "flash-3xtf32",
            "sdpa-efficient",
            "flash",
            "sdpa-cudnn",
            "plain",
            "flash-tf32",
            "sdpa-flash",
            "pytorch-plain");

    @TempDir
    private Path folder;

    /** Measurements of a fictitious machine with 1 TFLOP/s in fp32 and 2 in bf16, shuffled by the seed. */
    private MeasurementQuery fictitious(long seed) throws IOException {
        var rows = new ArrayList<String>();
        for (String dtype : List.of("bf16", "fp32")) {
            for (String implementation : IMPLEMENTATIONS) {
                boolean known = !(dtype.equals("fp32")
                        && Set.of("sdpa-flash", "sdpa-cudnn").contains(implementation));
                for (int d : new int[] {16, 32, 64, 128}) {
                    for (int context = 128; context <= 65_536; context *= 2) {
                        boolean fits = !implementation.equals("plain") || context < 65_536;
                        String status = !known ? "unsupported" : fits ? "ok" : "oom";
                        for (String pass : List.of("forward", "backward", "forward-backward")) {
                            double ms =
                                    FlashFigures.flops(pass, 1, context, d, true) / (dtype.equals("bf16") ? 2e9 : 1e9);
                            rows.add(row(context, d, dtype, implementation, pass, "ms", ms, status));
                        }
                        rows.add(row(context, d, dtype, implementation, "peak-memory", "bytes", 4e3 * context, status));
                    }
                }
            }
        }
        Collections.shuffle(rows, new Random(seed));
        rows.add(0, "batch,heads,d,context,dtype,causal,implementation,metric,unit,n,mean,std,median,min,max,status");
        Path machine = Files.createDirectories(folder.resolve("machine-" + seed));
        Files.write(machine.resolve("flash_benchmarking.csv"), rows);
        return MeasurementQuery.of(machine);
    }

    private static String row(
            int context, int d, String dtype, String name, String metric, String unit, double value, String status) {
        String numbers = status.equals("ok") ? "9,%1$s,0,%1$s,%1$s,%1$s".formatted(value) : ",,,,,";
        return String.join(",", "1,1", "" + d, "" + context, dtype, "true", name, metric, unit, numbers, status);
    }

    private static List<Figure> all(MeasurementQuery numbers) {
        return List.of(
                FlashFigures.times(numbers),
                FlashFigures.timesInSinglePrecision(numbers),
                FlashFigures.rates(numbers),
                FlashFigures.fractionOfPeak(numbers),
                FlashFigures.memory(numbers));
    }

    private static List<String> drawn(MeasurementQuery numbers) {
        return all(numbers).stream().map(Figure::svg).toList();
    }

    @Test
    void flopsAreThoseOfTheMatmulsBelowTheDiagonal() {
        // Masked scores are not counted: two matmuls of 2·d FLOPs for each of T²/2 scores.
        assertEquals(4.0 * 64 * 16_384 * 16_384 / 2 * 16, FlashFigures.flops("forward", 16, 16_384, 64, true));
        assertEquals(
                2.5 * FlashFigures.flops("forward", 3, 512, 32, false),
                FlashFigures.flops("backward", 3, 512, 32, false));
        assertEquals(
                FlashFigures.flops("forward", 1, 512, 32, true) + FlashFigures.flops("backward", 1, 512, 32, true),
                FlashFigures.flops("forward-backward", 1, 512, 32, true));
        assertThrows(IllegalArgumentException.class, () -> FlashFigures.flops("optimizer", 1, 1, 1, true));
    }

    @Test
    void ratesAreOperationsOverTime() throws IOException {
        MeasurementQuery numbers = fictitious(1);
        for (var panel : FlashFigures.rates(numbers).panels()) {
            for (var series : ((XYChart) panel).getSeriesCollection()) {
                for (double rate : series.getYData()) {
                    assertEquals(2, rate, 1e-9, series.getName());
                }
            }
        }
        for (var panel : FlashFigures.fractionOfPeak(numbers).panels()) {
            for (var series : ((XYChart) panel).getSeriesCollection()) {
                assertEquals(100 * 2 / 989.0, series.getYData()[0], 1e-9);
            }
        }
    }

    @Test
    void aLineEndsWhereMemoryRanOut() throws IOException {
        XYChart forward = (XYChart) FlashFigures.times(fictitious(1)).chart();
        assertEquals(
                List.of("plain", "PyTorch FA2", "PyTorch cuDNN", "flash"),
                forward.getSeriesCollection().stream().map(XYSeries::getName).toList());
        assertEquals(9, forward.getSeries("plain").getXData().length);
        assertEquals(10, forward.getSeries("flash").getXData().length);
    }

    @Test
    void figuresDoNotDependOnTheOrderOfMeasurementsNorOnTheLocale() throws IOException {
        List<String> once = drawn(fictitious(1));
        Locale before = Locale.getDefault();
        try {
            Locale.setDefault(Locale.forLanguageTag("ar-SA")); // has its own digits
            assertEquals(once, drawn(fictitious(2)));
        } finally {
            Locale.setDefault(before);
        }
    }

    @Test
    void theDrawingOfTilesIsTheStoredOne() throws IOException {
        Figure tiles = FlashFigures.tiles();
        assertEquals(Files.readString(Project.path("figures/" + tiles.name() + ".svg")), tiles.svg());
    }
}
