package cs336.scaling;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cs336.basics.TransformerConfig;
import cs336.numbers.MeasurementQuery;
import cs336.scaling.FsdpPrediction.AttentionTimes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class AttentionTimesTest {
    private static final int LAYERS = 3;
    private static final int HEADS = 2;
    private static final int BATCH = 5;

    @TempDir
    Path folder;

    private AttentionTimes times;

    /** Returns milliseconds of a forward pass whose time has a part in T² and a part in T. */
    private static double forward(int heads, int width, double context) {
        return heads * width * (2e-12 * context * context + 3e-9 * context);
    }

    private static TransformerConfig config(int d, int context) {
        return TransformerConfig.builder()
                .vocabSize(10)
                .contextLength(context)
                .dModel(HEADS * d)
                .numHeads(HEADS)
                .numLayers(LAYERS)
                .dFf(8)
                .build();
    }

    @BeforeEach
    void store() throws IOException {
        var csv = new StringBuilder("heads,d,context,implementation,warmup,rep,round,metric,unit,n,mean,std,median,min,"
                + "max,status,device,versions,commit,date\n");
        for (int width : List.of(64, 128)) {
            Map.of(256, 1024, 1024, 256, 4096, 16, 16_384, 16).forEach((context, heads) -> {
                for (int round : List.of(1, 2, 3)) {
                    double forward = forward(heads, width, context) * (1 + 0.1 * (round - 2));
                    Map.of("forward", forward, "forward-backward", 4 * forward)
                            .forEach((metric, ms) -> csv.append(String.join(
                                            ",", "" + heads, "" + width, "" + context, "flash", "100", "200"))
                                    .append(String.join(",", "", "" + round, metric, "ms,1", "" + ms, ""))
                                    .append(String.join(",", "", "" + ms, "" + ms, "" + ms, "ok,d,v,c,t\n")));
                }
            });
        }
        Files.createDirectories(folder.resolve("h200"));
        Files.writeString(folder.resolve("h200/flash_leaderboard.csv"), csv);
        double of80 = forward(256, 80, 2048);
        Files.writeString(
                folder.resolve("h200/flash_benchmarking.csv"),
                "batch,heads,d,context,dtype,causal,implementation,metric,unit,n,mean,std,median,min,"
                        + "max,status,device,versions,commit,date\n"
                        + row("forward", of80)
                        + row("backward", 3 * of80));
        times = new AttentionTimes(MeasurementQuery.of(folder.resolve("h200")));
    }

    private static String row(String metric, double ms) {
        return "8,32,80,2048,bf16,true,flash," + metric + ",ms,1," + ms + ",," + ms + "," + ms + "," + ms
                + ",ok,d,v,c,t\n";
    }

    private void assertTimes(double expectedForward, TransformerConfig config) {
        assertEquals(expectedForward, times.forward(config, BATCH).ms(), 1e-9 * expectedForward);
        assertEquals(3 * expectedForward, times.backward(config, BATCH).ms(), 3e-9 * expectedForward);
    }

    @Test
    void aTimeWithASquareAndALinearPartIsInterpolatedExactly() {
        for (int context : new int[] {256, 512, 1024, 2048, 8192, 16_384}) {
            for (int d : new int[] {64, 128}) {
                assertTimes(forward(BATCH * LAYERS * HEADS, d, context), config(d, context));
            }
        }
    }

    @Test
    void otherHeadDimensionsTakeTheTimeOfThePaddedOne() {
        assertTimes(forward(BATCH * LAYERS * HEADS, 64, 512), config(16, 512));
        assertTimes(forward(BATCH * LAYERS * HEADS, 128, 512), config(88, 512));
        var wide = config(256, 512);
        assertThrows(IllegalArgumentException.class, () -> times.forward(wide, BATCH));
    }

    @Test
    void outsideTheMeasuredContextsTheTimePerFlopIsThatOfTheNearest() {
        int heads = BATCH * LAYERS * HEADS;
        assertTimes(forward(heads, 64, 256) / 4, config(64, 128));
        assertTimes(forward(heads, 64, 16_384) * 4, config(64, 32_768));
    }

    @Test
    void theWidthOf80WasMeasuredAtOneContext() {
        int heads = BATCH * LAYERS * HEADS;
        assertTimes(forward(heads, 80, 2048), config(80, 2048));
        assertTimes(forward(heads, 80, 2048) / 16, config(72, 512));
    }

    @Test
    void aMissingMeasurementIsAnError() throws IOException {
        Path file = folder.resolve("h200/flash_leaderboard.csv");
        Files.write(
                file,
                Files.readAllLines(file).stream()
                        .filter(line -> !line.startsWith("256,64,1024"))
                        .toList());
        var numbers = MeasurementQuery.of(folder.resolve("h200"));
        assertThrows(IllegalArgumentException.class, () -> new AttentionTimes(numbers));
    }
}
