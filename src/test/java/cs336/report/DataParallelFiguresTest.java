package cs336.report;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.scaling.Bandwidth;
import cs336.scaling.BucketModel;
import cs336.scaling.Bytes;
import cs336.scaling.Seconds;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
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
        csv.append(String.format(
                Locale.ROOT,
                "xl,2025,2,128,fp32,nccl,1,2,%s,%s,1,%s,%s,%s,6,%s,%s,%s,%s,%s,ok,,,,%n",
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
        // 1 MB and 5 MB make as many messages, since no tensor is smaller.
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

    private Numbers numbers() {
        Numbers numbers = Numbers.of(folder);
        numbers.define("ddp", "ddp_benchmarking[round=1]");
        return numbers;
    }

    @Test
    void theModelOfBucketsIsTheOneThatMadeTheTimes() {
        BucketModel fit = DataParallelFigures.bucketModel(numbers(), "ddp");
        assertEquals(300, fit.bandwidth().gb(), 1e-6 * 300);
        assertEquals(40, fit.callOverhead().us(), 1e-6 * 40);
        assertEquals(Seconds.ms(BACKWARD_MS), fit.backward());
        assertTrue(DataParallelFigures.buckets(numbers(), "ddp").svg().contains("measured"));
    }

    @Test
    void everyModeIsHeldAgainstTheStepWithoutCommunicationOfItsOwnImplementation() {
        var bars = (CategoryChart) DataParallelFigures.added(numbers()).chart();
        assertEquals(List.of(6.0), values(bars, "Java, bucketed 25 MB"), "106 of 100");
        assertEquals(List.of(15.0), values(bars, "PyTorch 25 MB"), "125 of 110");
        assertNull(bars.getSeries("Java, naive"), "shows what sends during the backward pass");
    }

    private static List<Double> values(CategoryChart bars, String series) {
        return Arrays.stream(bars.getSeries(series).getYData()).boxed().toList();
    }

    @Test
    void theSameTableDrawsTheSameFigure() {
        assertEquals(
                DataParallelFigures.sizes(numbers()).svg(),
                DataParallelFigures.sizes(numbers()).svg());
    }
}
