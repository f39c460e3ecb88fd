package cs336.figures;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Project;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.knowm.xchart.CategoryChart;

class DataParallelFiguresTest {
    @TempDir
    private Path folder;

    private final StringBuilder csv = new StringBuilder(
            "size,year,batch,context,dtype,backend,nodes,processes,mode,"
                    + "bucket_mb,round,implementation,metric,unit,n,mean,std,median,min,max,status,device,versions,commit,date\n");

    private void put(String mode, double megabytes, String implementation, String metric, String unit, double value) {
        put(128, mode, megabytes, implementation, metric, unit, value);
    }

    private void put(
            int context,
            String mode,
            double megabytes,
            String implementation,
            String metric,
            String unit,
            double value) {
        csv.append(String.format(
                Locale.ROOT,
                "xl,2025,2,%d,fp32,nccl,1,2,%s,%s,1,%s,%s,%s,6,%s,%s,%s,%s,%s,ok,,,,%n",
                context,
                mode,
                megabytes,
                implementation,
                metric,
                unit,
                value,
                mode.equals("none") ? 3 : 4,
                value,
                value,
                value));
    }

    @BeforeEach
    void store() throws IOException {
        put("none", 0, "plain", "total", "ms", 100);
        put("none", 0, "pytorch-eager", "total", "ms", 110);
        put("ddp", 25, "pytorch-eager", "total", "ms", 125);
        put("naive", 0, "plain", "total", "ms", 140);
        put(512, "none", 0, "plain", "total", "ms", 300);
        put(512, "bucketed", 25, "plain", "total", "ms", 309);
        for (double bucket : new double[] {1, 5, 25, 100, 1000}) {
            put("bucketed", bucket, "plain", "total", "ms", 106);
        }
        Files.writeString(folder.resolve("ddp_benchmarking.csv"), csv);
    }

    private MeasurementQuery numbers() {
        MeasurementQuery numbers = MeasurementQuery.of(folder);
        numbers.define("ddpSizes", "ddp_benchmarking[context=128, round=1, implementation=plain, processes=2]");
        return numbers;
    }

    @Test
    void bucketsShowPredictionsOfTheStoredSteps() {
        var stored = MeasurementQuery.of(Project.path("data/measurements/h200-x4"));
        Figure buckets = DataParallelFigures.buckets(stored);
        assertEquals("data-parallel-xl512", buckets.name());
        assertTrue(buckets.svg().contains("as measured and as predicted"));
    }

    @Test
    void everyModeIsComparedWithTheStepWithoutCommunicationOfItsImplementation() {
        var bars = (CategoryChart) DataParallelFigures.added(numbers(), 128).chart();
        assertEquals(6, bar(bars, "Java, 25 MB"), "106 − 100");
        assertEquals(15, bar(bars, "PyTorch, 25 MB"), "125 − 110");
        assertFalse(modes(bars).contains("Java, naive"), "only modes that overlap are shown");
    }

    @Test
    void everySequenceLengthHasItsOwnFigure() {
        Figure longer = DataParallelFigures.added(numbers(), 512);
        assertEquals("data-parallel-added-512", longer.name());
        assertEquals(9, bar((CategoryChart) longer.chart(), "Java, 25 MB"), "309 − 300");
    }

    private static List<?> modes(CategoryChart bars) {
        return new ArrayList<Object>((Collection<?>) bars.getSeries("2 GPUs").getXData());
    }

    private static double bar(CategoryChart bars, String mode) {
        return bars.getSeries("2 GPUs").getYData()[modes(bars).indexOf(mode)];
    }

    @Test
    void sizesAreComparedByTheAddedPercentage() {
        var bars = (CategoryChart) DataParallelFigures.sizes(numbers()).chart();
        var naive = bars.getSeries("naive");
        assertEquals(List.of("xl"), new ArrayList<Object>((Collection<?>) naive.getXData()));
        assertEquals(40, naive.getYData()[0], 1e-9, "140 of 100");
    }

    @Test
    void figuresAreDeterministic() {
        assertEquals(
                DataParallelFigures.sizes(numbers()).svg(),
                DataParallelFigures.sizes(numbers()).svg());
    }
}
