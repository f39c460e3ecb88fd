package cs336.figures;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import cs336.scaling.BucketModel;
import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Seconds;
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
    private static final long BYTES = 8_000_000_000L;
    private static final double BACKWARD_MS = 60;
    private static final BucketModel TRUTH =
            new BucketModel(new Bytes(BYTES), Bandwidth.gb(300), Seconds.us(40), Seconds.ms(BACKWARD_MS));

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
        put("none", 0, "plain", "backward", "ms", BACKWARD_MS);
        put("none", 0, "plain", "gradient-bytes", "bytes", BYTES);
        put("none", 0, "pytorch-eager", "total", "ms", 110);
        put("ddp", 25, "pytorch-eager", "total", "ms", 125);
        put("naive", 0, "plain", "total", "ms", 140);
        put(512, "none", 0, "plain", "total", "ms", 300);
        put(512, "bucketed", 25, "plain", "total", "ms", 309);
        // Buckets of 1 MB and 5 MB need equally many all-reduces, since each tensor is larger.
        double[][] buckets = {{1, 400}, {5, 400}, {25, 240}, {100, 75}, {1000, 9}};
        for (double[] bucket : buckets) {
            put("bucketed", bucket[0], "plain", "total", "ms", 106);
            put("bucketed", bucket[0], "plain", "messages", "", bucket[1]);
            put(
                    "bucketed",
                    bucket[0],
                    "plain",
                    "communication",
                    "ms",
                    TRUTH.overhead(bucket[1]).ms());
        }
        Files.writeString(folder.resolve("ddp_benchmarking.csv"), csv);
    }

    private MeasurementQuery numbers() {
        MeasurementQuery numbers = MeasurementQuery.of(folder);
        numbers.define("ddp", "ddp_benchmarking[context=128, round=1]");
        return numbers;
    }

    @Test
    void theFittedBucketModelIsTheOneThatGeneratedTheTimes() {
        BucketModel fit = DataParallelFigures.bucketModel(numbers(), "ddp");
        assertEquals(300, fit.bandwidth().gb(), 1e-6 * 300);
        assertEquals(40, fit.callOverhead().us(), 1e-6 * 40);
        assertEquals(Seconds.ms(BACKWARD_MS), fit.backward());
        assertTrue(DataParallelFigures.buckets(numbers(), "ddp").svg().contains("measured"));
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
    void figuresAreDeterministic() {
        assertEquals(
                DataParallelFigures.sizes(numbers()).svg(),
                DataParallelFigures.sizes(numbers()).svg());
    }
}
