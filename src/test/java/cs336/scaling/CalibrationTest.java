package cs336.scaling;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.basics.TransformerConfig;
import cs336.torch.DType;
import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Seconds;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

/** Checks that a fit recovers the numbers of a simulated cluster from simulated measurements on two devices. */
class CalibrationTest {
    private static final TransformerConfig CONFIG = ModelSize.XL.config(ModelEdition.SPRING_2025, 128);
    private static final List<Synchronization> SYNCHRONIZATIONS = List.of(
            Synchronization.each(),
            Synchronization.flat(),
            Synchronization.overlapped(),
            Synchronization.buckets(new Bytes(50_000_000)),
            Synchronization.buckets(new Bytes(500_000_000)));
    private static final Calibration TRUTH = new Calibration(
            StepModel.of(CONFIG, Seconds.ms(33), Seconds.ms(62), Seconds.ms(20)),
            new Cluster(
                    8, Cluster.H200.within().withBandwidth(Bandwidth.gb(330)), Cluster.H200.between(), Seconds.us(17)),
            new Overheads(Seconds.us(12), Bandwidth.gb(1400), Seconds.us(20), 0.35),
            DType.FLOAT32);

    private static Calibration.MeasuredSteps measured(Map<Synchronization, Seconds> synchronizedSteps) {
        return new Calibration.MeasuredSteps(
                CONFIG,
                DType.FLOAT32,
                2,
                Seconds.ms(33),
                Seconds.ms(62),
                Seconds.ms(20),
                Seconds.ms(115),
                synchronizedSteps);
    }

    private static Map<Synchronization, Seconds> steps() {
        Map<Synchronization, Seconds> synchronizedSteps = new LinkedHashMap<>();
        for (Synchronization how : SYNCHRONIZATIONS) {
            synchronizedSteps.put(how, TRUTH.dataParallel(how, 2).time());
        }
        return synchronizedSteps;
    }

    private static List<RingAllReduce.MeasuredAllReduce> allReduces() {
        return LongStream.of(1, 10, 100, 1000)
                .mapToObj(mb -> {
                    var payload = new Bytes(mb * 1_000_000);
                    Cluster cluster = TRUTH.cluster();
                    Seconds time =
                            cluster.time(Collective.ALL_REDUCE, payload, cluster.group(2, 1), Cluster.Algorithm.BEST);
                    return new RingAllReduce.MeasuredAllReduce(2, payload, time);
                })
                .toList();
    }

    @Test
    void theFitRecoversTheNumbersThatGeneratedTheMeasurements() {
        Calibration fitted = Calibration.fit(Cluster.H200, allReduces(), measured(steps()));
        assertEquals(330e9, fitted.cluster().within().bandwidth().bytesPerSecond(), 1);
        assertEquals(17e-6, fitted.cluster().launch().value(), 1e-12);
        assertEquals(12e-6, fitted.overheads().eachCollective().value(), 1e-9);
        assertEquals(20e-6, fitted.overheads().start().value(), 1e-9);
        assertEquals(1400e9, fitted.overheads().copy().bytesPerSecond(), 1e8);
        assertEquals(0.35, fitted.overheads().slowdown(), 1e-5);
        for (int n : new int[] {2, 4, 64}) {
            assertEquals(
                    TRUTH.dataParallel(Synchronization.overlapped(), n).time().value(),
                    fitted.dataParallel(Synchronization.overlapped(), n).time().value(),
                    1e-9);
        }
    }

    @Test
    void noiseInStepsOnTwoIsNotAmplifiedInPredictionsForFour() {
        long seed = System.nanoTime();
        var random = new Random(seed);
        double noise = 0.01;
        int trials = 10;
        double[] squares = new double[SYNCHRONIZATIONS.size()];
        for (int trial = 0; trial < trials; trial++) {
            Map<Synchronization, Seconds> noisy = new LinkedHashMap<>();
            steps().forEach((how, time) -> noisy.put(how, time.times(1 + noise * random.nextGaussian())));
            Calibration fitted = Calibration.fit(Cluster.H200, allReduces(), measured(noisy));
            for (int i = 0; i < squares.length; i++) {
                Synchronization how = SYNCHRONIZATIONS.get(i);
                double expected = TRUTH.dataParallel(how, 4).time().value();
                double found = fitted.dataParallel(how, 4).time().value();
                squares[i] += Math.pow(found / expected - 1, 2);
            }
        }
        for (int i = 0; i < squares.length; i++) {
            double error = Math.sqrt(squares[i] / trials); // at most 1.6 times the noise over many trials
            assertTrue(error < 3 * noise, SYNCHRONIZATIONS.get(i) + ": " + error + ", seed " + seed);
        }
    }

    @Test
    void allReducesOfGroupsOfDifferentSizesShareOneFit() {
        List<RingAllReduce.MeasuredAllReduce> measured = new ArrayList<>(allReduces());
        for (int n : new int[] {4, 8}) {
            var payload = new Bytes(50_000_000);
            Seconds ring = TRUTH.cluster()
                    .time(Collective.ALL_REDUCE, payload, TRUTH.cluster().group(n, 1), Cluster.Algorithm.RING);
            measured.add(new RingAllReduce.MeasuredAllReduce(n, payload, ring));
        }
        Cluster fitted = Calibration.network(Cluster.H200, measured);
        assertEquals(330e9, fitted.within().bandwidth().bytesPerSecond(), 1e3);
        assertEquals(17e-6, fitted.launch().value(), 1e-10);
    }

    @Test
    void stepsFasterThanTheirCollectivesHaveNoOverheads() {
        Map<Synchronization, Seconds> synchronizedSteps = new LinkedHashMap<>();
        steps().keySet().forEach(how -> synchronizedSteps.put(how, Seconds.ms(115)));
        Overheads overheads = Calibration.fit(Cluster.H200, allReduces(), measured(synchronizedSteps))
                .overheads();
        assertEquals(0, overheads.eachCollective().value());
        assertTrue(Double.isInfinite(overheads.copy().bytesPerSecond()));
        assertEquals(0, overheads.slowdown(), 1e-9);
    }

    @Test
    void missingStepsAreNamed() {
        var error = assertThrows(
                IllegalArgumentException.class, () -> Calibration.fit(Cluster.H200, allReduces(), measured(Map.of())));
        assertEquals(
                "synchronizedSteps must include each(), flat() and two sizes of buckets, not []", error.getMessage());
    }

    @Test
    void aClusterWithOneClassOfLinksIsAPlainRing() {
        var link = new Link("link", Seconds.us(3), Bandwidth.gb(100));
        var cluster = new Cluster(8, link, link, Seconds.ZERO);
        var ring = new RingAllReduce(Seconds.us(3), Bandwidth.gb(100));
        var payload = new Bytes(1_000_000_000);
        for (int n : new int[] {2, 7, 8, 64}) {
            assertEquals(
                    ring.time(n, payload).value(),
                    cluster.time(Collective.ALL_REDUCE, payload, cluster.group(n, 1), Cluster.Algorithm.RING)
                            .value(),
                    1e-12);
        }
    }
}
