package cs336.scaling;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.bench.Project;
import cs336.charts.Figure;
import cs336.figures.ScalingFigures;
import cs336.numbers.MeasurementQuery;
import cs336.torch.DType;
import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Seconds;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.Table;

class ScaleOutStudyTest {
    private static final Calibration TRUTH = new Calibration(
            StepModel.of(
                    ModelSize.XL.config(ModelEdition.SPRING_2025, 512), Seconds.ms(30), Seconds.ms(60), Seconds.ms(20)),
            new Cluster(
                    8, Cluster.H200.within().withBandwidth(Bandwidth.gb(330)), Cluster.H200.between(), Seconds.us(12)),
            new Overheads(Seconds.us(9), Bandwidth.gb(1500), Seconds.us(14), 0.3),
            DType.FLOAT32);

    @TempDir
    private Path folder;

    /** What a cluster that behaves as the simulation says would measure, two rounds that differ by 2 ms around it. */
    private MeasurementQuery pretended() throws IOException {
        List<String> rows = new ArrayList<>();
        rows.add("size,year,batch,context,dtype,backend,nodes,processes,mode,bucket_mb,round," + numbers(""));
        Map<String, Synchronization> ways = new LinkedHashMap<>();
        ways.put("naive,0", Synchronization.each());
        ways.put("flat,0", Synchronization.flat());
        ways.put("overlapped,0", Synchronization.overlapped());
        ways.put("bucketed,5", Synchronization.buckets(new Bytes(5_000_000)));
        ways.put("bucketed,25", Synchronization.buckets(new Bytes(25_000_000)));
        ways.put("bucketed,1000", Synchronization.buckets(new Bytes(1_000_000_000)));
        for (int n : new int[] {2, 4}) {
            for (int round = 1; round <= 2; round++) {
                String start = "xl,2025,2,512,fp32,nccl,1," + n + ",";
                double off = 2 * round - 3;
                for (var way : ways.entrySet()) {
                    double ms = TRUTH.dataParallel(way.getValue(), n).time().ms() + off;
                    rows.add(start + way.getKey() + "," + round + "," + numbers("plain,total,ms", ms));
                }
                rows.add(start + "none,0," + round + "," + numbers("plain,total,ms", 1.2 * 110 + off));
                for (String way : List.of("none", "naive", "flat")) {
                    double late = way.equals("none") ? 1.2 : 1; // one of three may be off
                    rows.add(start + way + ",0," + round + "," + numbers("plain,forward,ms", 30 * late));
                    rows.add(start + way + ",0," + round + "," + numbers("plain,backward,ms", 60 * late));
                    rows.add(start + way + ",0," + round + "," + numbers("plain,optimizer,ms", 20 * late));
                }
            }
            for (String way : List.of("none,0", "bucketed,25")) { // a third round, of some ways alone, on a slow day
                rows.add("xl,2025,2,512,fp32,nccl,1," + n + "," + way + ",3," + numbers("plain,total,ms", 500));
            }
        }
        Path machine = Files.createDirectories(folder.resolve("pretended"));
        Files.write(machine.resolve("ddp_benchmarking.csv"), rows);
        rows.clear();
        rows.add("backend,on,nodes,processes,megabytes," + numbers(""));
        for (int n : new int[] {2, 4}) {
            for (String mb : List.of("0.512", "1", "10", "100", "1000")) {
                Bytes payload = new Bytes(Math.round(Double.parseDouble(mb) * 1e6));
                var group = TRUTH.cluster().group(n, 1);
                double ms = TRUTH.cluster()
                        .time(Collective.ALL_REDUCE, payload, group, Cluster.Algorithm.RING)
                        .ms();
                rows.add("nccl,cuda,1," + n + "," + mb + "," + numbers("java,queued,ms", ms));
            }
        }
        Files.write(machine.resolve("distributed_communication_single_node.csv"), rows);
        rows.clear();
        rows.add("size,year,batch,context,dtype,pass," + numbers(""));
        rows.add("xl,2025,4,512,fp32,step," + numbers("plain,forward,ms", 60));
        rows.add("xl,2025,4,512,fp32,step," + numbers("plain,backward,ms", 120));
        rows.add("xl,2025,4,512,fp32,step," + numbers("plain,optimizer,ms", 20));
        Files.write(Files.createDirectories(folder.resolve("h200")).resolve("benchmarking_script.csv"), rows);
        return MeasurementQuery.of(machine);
    }

    private static String numbers(String names, double... value) {
        if (value.length == 0)
            return "implementation,metric,unit,n,mean,std,median,min,max,status,device,versions,commit,date";
        return names + ",5,%1$s,0,%1$s,%1$s,%1$s,ok,card,versions,commit,date".formatted(value[0]);
    }

    @Test
    void whatTheSimulationWouldMeasureIsPredictedExactly() throws IOException {
        Table predictions = new ScaleOutStudy(pretended()).predictions();
        assertEquals(14, predictions.rowCount());
        for (Row row : predictions) {
            if (row.getString("mode").equals("none")) { // pretended to be late
                assertEquals(TRUTH.model().alone().ms(), row.getDouble("predicted (ms)"), 1e-6);
            } else {
                assertEquals(
                        0, row.getDouble("error (%)"), 1e-6, row.getString("mode") + " " + row.getInt("processes"));
            }
        }
        assertEquals(7, predictions.stringColumn("used in fit").countOccurrences("yes"));
    }

    @Test
    void allReducesOfFourCardsFollowFromThoseOfTwo() throws IOException {
        Table allReduces = new ScaleOutStudy(pretended()).allReduces();
        assertEquals(10, allReduces.rowCount());
        for (Row row : allReduces) assertEquals(0, row.getDouble("error (%)"), 1e-6);
    }

    @Test
    void theFitIsATableOfWhatWasPretended() throws IOException {
        Table fits = new ScaleOutStudy(pretended()).fits();
        assertEquals(
                List.of("all-reduces", "xl"), fits.stringColumn("fitted to").asList());
        assertEquals(330, fits.row(0).getDouble("link bandwidth (GB/s)"), 1e-6);
        assertEquals(12, fits.row(0).getDouble("launch (µs)"), 1e-6);
        Row fit = fits.row(1);
        assertEquals(330, fit.getDouble("link bandwidth (GB/s)"), 1e-6);
        assertEquals(12, fit.getDouble("launch (µs)"), 1e-6);
        assertEquals(9, fit.getDouble("each collective (µs)"), 1e-3);
        assertEquals(TRUTH.copying().ms(), fit.getDouble("copy (ms)"), 1e-4);
        assertEquals(14, fit.getDouble("start (µs)"), 1e-3);
        assertEquals(30, fit.getDouble("slowdown (%)"), 1e-3);
    }

    @Test
    void moreDevicesNeverMakeAStepShorterThanItsPassesAndOnlyWhatFitsIsSimulated() throws IOException {
        Table curves = new ScaleOutStudy(pretended()).curves();
        for (Row row : curves) {
            assertTrue(row.getDouble("forward and backward (%)") < 100, row.getString("strategy"));
            if (row.getString("model").equals("XXL")) assertTrue(row.getInt("devices") >= 64);
        }
        Table flat = curves.where(curves.stringColumn("strategy").isEqualTo("ddp-flat"));
        assertEquals(12, flat.rowCount());
        for (int i = 1; i < flat.rowCount(); i++) {
            assertTrue(flat.doubleColumn("step (ms)").get(i)
                    >= flat.doubleColumn("step (ms)").get(i - 1));
        }
    }

    @Test
    void figuresComeOutTheSameTwice() throws IOException {
        var scaling = new ScaleOutStudy(pretended());
        assertEquals(drawn(scaling), drawn(scaling));
    }

    private static List<String> drawn(ScaleOutStudy scaling) {
        return List.of(
                        ScalingFigures.memory(),
                        ScalingFigures.batch(),
                        ScalingFigures.predicted(scaling.predictions()),
                        ScalingFigures.steps(scaling.curves()),
                        ScalingFigures.useful(scaling.curves()),
                        ScalingFigures.timeline(
                                "a", "b", Map.of("flat", TRUTH.dataParallel(Synchronization.flat(), 8))))
                .stream()
                .map(Figure::svg)
                .toList();
    }

    @Test
    void aSizeThatWasNotMeasuredIsNamed() throws IOException {
        var scaling = new ScaleOutStudy(pretended());
        assertEquals(List.of("xl"), scaling.sizes());
        assertThrows(IllegalArgumentException.class, () -> scaling.calibration("small"));
    }

    /** The writeup reads stored predictions; they are those that follow from the stored measurements. */
    @Test
    void storedPredictionsFollowFromStoredMeasurements() throws IOException {
        MeasurementQuery stored = MeasurementQuery.of(Project.path("data/measurements/on-paper"));
        var scaling = new ScaleOutStudy(MeasurementQuery.of(Project.path("data/measurements/h200-x4")));
        Table predictions = scaling.predictions();
        assertEquals(
                predictions.rowCount(),
                stored.select("scaling_predictions[metric=off]").rowCount());
        for (Row row : predictions) {
            requireStored(
                    stored,
                    "scaling_predictions[size=%s, processes=%d, mode=%s, bucket_mb=%s, "
                            .formatted(
                                    row.getString("size"),
                                    row.getInt("processes"),
                                    row.getString("mode"),
                                    row.getDouble("bucket (MB)")),
                    row);
        }
        for (Row row : scaling.allReduces()) {
            requireStored(
                    stored,
                    "scaling_all_reduces[processes=%d, megabytes=%s, "
                            .formatted(row.getInt("processes"), row.getDouble("payload (MB)")),
                    row);
        }
    }

    /** The goal of the chapter. */
    @Test
    void measuredStepsOfFourCardsAreForetoldFromTwoWithinATenth() throws IOException {
        Table predictions =
                new ScaleOutStudy(MeasurementQuery.of(Project.path("data/measurements/h200-x4"))).predictions();
        Table foretold =
                predictions.where(predictions.stringColumn("used in fit").isEqualTo("no"));
        assertTrue(
                foretold.stringColumn("mode").asSet().containsAll(List.of("naive", "flat", "overlapped", "bucketed")));
        for (Row row : foretold) {
            assertEquals(4, row.getInt("processes"));
            double measured = row.getDouble("measured (ms)");
            assertEquals(measured, row.getDouble("predicted (ms)"), measured / 10, row.getString("mode"));
        }
    }

    private static void requireStored(MeasurementQuery stored, String selection, Row row) {
        Map<String, String> columns =
                Map.of("measured", "measured (ms)", "predicted", "predicted (ms)", "off", "error (%)");
        for (String metric : columns.keySet()) {
            double fresh = row.getDouble(columns.get(metric));
            double found = stored.quantity(selection + "metric=" + metric + "]").value();
            assertEquals(fresh, found, 1e-6 * Math.abs(fresh) + 1e-9, selection + metric);
        }
    }
}
