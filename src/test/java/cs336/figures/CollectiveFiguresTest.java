package cs336.figures;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import cs336.scaling.RingAllReduce;
import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Seconds;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.knowm.xchart.XYChart;

class CollectiveFiguresTest {
    private static final List<String> MEGABYTES = List.of("0.512", "1", "10", "50", "100", "500", "1000");
    private static final String HEADER =
            "backend,on,nodes,processes,megabytes,implementation,metric,unit,n,mean,std,median,min,max,status";

    @TempDir
    private Path folder;

    /** Measurements of a fictitious machine whose backends follow the ring model, shuffled by the seed. */
    private MeasurementQuery fictitious(long seed) throws IOException {
        Path measurements = folder.resolve("seed-" + seed);
        List<String> one = new ArrayList<>(), slurm = new ArrayList<>(), emulated = new ArrayList<>();
        for (int n : new int[] {2, 4, 6}) {
            for (String implementation : List.of("java", "python")) {
                rows(one, "gloo,cpu,1," + n, implementation, n, new RingAllReduce(Seconds.us(100), Bandwidth.gb(2)));
                rows(one, "gloo,cuda,1," + n, implementation, n, new RingAllReduce(Seconds.us(200), Bandwidth.gb(1)));
            }
            rows(slurm, "gloo,cpu,1," + n, "java", n, new RingAllReduce(Seconds.us(100), Bandwidth.gb(2)));
            rows(slurm, "gloo,cpu,2," + n, "java", n, new RingAllReduce(Seconds.us(300), Bandwidth.gb(1)));
        }
        for (int n : new int[] {2, 4}) {
            for (String implementation : List.of("java", "python")) {
                rows(one, "nccl,cuda,1," + n, implementation, n, new RingAllReduce(Seconds.us(5), Bandwidth.gb(350)));
            }
            rows(emulated, "nccl,cuda,2," + n, "java", n, new RingAllReduce(Seconds.us(50), Bandwidth.gb(3)));
        }
        write(measurements.resolve("h200-x4/distributed_communication_single_node.csv"), HEADER, one, seed);
        write(measurements.resolve("h200-x4/distributed_communication_multi_node.csv"), HEADER, emulated, seed);
        write(
                measurements.resolve("slurm-2-nodes-emulated/distributed_communication_multi_node.csv"),
                HEADER,
                slurm,
                seed);
        return MeasurementQuery.of(Files.createDirectories(measurements.resolve("h200")));
    }

    private static void rows(List<String> rows, String setting, String implementation, int n, RingAllReduce ring) {
        for (String megabytes : MEGABYTES) {
            for (String metric : List.of("time", "queued")) {
                double ms = ring.time(n, Bytes.parse(megabytes + " MB")).ms();
                rows.add("%s,%s,%s,%s,ms,9,%5$s,0,%5$s,%5$s,%5$s,ok"
                        .formatted(setting, megabytes, implementation, metric, ms));
            }
        }
    }

    private static void write(Path file, String header, List<String> rows, long seed) throws IOException {
        var lines = new ArrayList<>(rows);
        Collections.shuffle(lines, new Random(seed));
        lines.add(0, header);
        Files.createDirectories(file.getParent());
        Files.write(file, lines);
    }

    private static List<Figure> all(MeasurementQuery numbers) {
        return List.of(
                CollectiveFigures.times(numbers),
                CollectiveFigures.throughput(numbers),
                CollectiveFigures.emulatedNodes(numbers),
                CollectiveFigures.slurmNodes(numbers));
    }

    @Test
    void figuresDoNotDependOnTheOrderOfMeasurements() throws IOException {
        List<String> first = all(fictitious(1)).stream().map(Figure::svg).toList();
        List<String> second = all(fictitious(2)).stream().map(Figure::svg).toList();
        for (int i = 0; i < first.size(); i++) {
            assertTrue(first.get(i).equals(second.get(i)), "figure " + i);
        }
    }

    @Test
    void theRingModelIsRecoveredAndItsBusBandwidthShown() throws IOException {
        MeasurementQuery numbers = fictitious(3);
        RingAllReduce ring = CollectiveFigures.ring(numbers, 4);
        assertEquals(5, ring.alpha().us(), 1e-4);
        assertEquals(350, ring.beta().gb(), 1e-3);

        XYChart both = (XYChart) CollectiveFigures.throughput(numbers).chart();
        double[] queued = both.getSeries("4 GPUs, measured").getYData();
        double seconds = 6 * (5e-6 + 0.25e9 / 350e9);
        assertEquals(1.5 * 1e9 / seconds / 1e9, queued[queued.length - 1], 1e-3, "2 · 3/4 of 1 GB divided by the time");
    }

    @Test
    void everyBackendHasAPanelAndEveryNumberOfProcessesALine() throws IOException {
        Figure times = CollectiveFigures.times(fictitious(4));
        assertEquals(3, times.panels().size());
        assertNotNull(((XYChart) times.panels().get(0)).getSeries("6 processes"));
        assertNotNull(((XYChart) times.panels().get(2)).getSeries("4 processes"));
        assertNull(((XYChart) times.panels().get(2)).getSeries("6 processes"), "NCCL needs one GPU per rank");
    }

    @Test
    void emulatedNodesAreComparedWithOneNode() throws IOException {
        XYChart two = (XYChart)
                CollectiveFigures.emulatedNodes(fictitious(5)).panels().get(0);
        double[] sockets = two.getSeries("2 emulated nodes: sockets").getYData();
        assertEquals(7, two.getSeries("1 node: NVLink").getYData().length);
        double ms = 1e3 * 2 * (50e-6 + 0.5e9 / 3e9);
        assertEquals(ms, sockets[sockets.length - 1], 1e-6 * ms, "1 GB at 3 GB/s");
    }
}
