package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.bench.Samples;
import java.util.List;
import org.junit.jupiter.api.Test;

class AllReduceTimesTest {
    private static final AllReduceTimes TIMES =
            new AllReduceTimes(4, 100_000_000, List.of(1.0, 4.0, 2.0), List.of(0.5));

    @Test
    void bandwidthsFollowFromTheMedian() {
        assertEquals(2.0, TIMES.summary().median());
        assertEquals(50e9, TIMES.algorithmBandwidth(), 1);
        assertEquals(75e9, TIMES.busBandwidth(), 1, "each of 4 ranks sends 2 · 3/4 of the tensor");
    }

    @Test
    void withTwoRanksBothBandwidthsAreEqual() {
        var times = new AllReduceTimes(2, 1_000_000, List.of(1.0), List.of());
        assertEquals(times.algorithmBandwidth(), times.busBandwidth());
    }

    @Test
    void backToBackTimesAreStoredIfPresent() {
        assertEquals(List.of("time ms", "queued ms", "algorithm-bandwidth GB/s", "bus-bandwidth GB/s"), stored(TIMES));
        var gloo = new AllReduceTimes(2, 1_000_000, List.of(1.0), List.of());
        assertEquals(List.of("time ms", "algorithm-bandwidth GB/s", "bus-bandwidth GB/s"), stored(gloo));
        Samples bus = TIMES.samples().get(3);
        assertEquals(75, bus.values().get(0), 1e-9);
    }

    private static List<String> stored(AllReduceTimes times) {
        return times.samples().stream()
                .map(s -> s.metric().name() + " " + s.metric().unit())
                .toList();
    }
}
