package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class SummaryTest {
    @Test
    void statisticsOfAKnownSample() {
        Summary s = Summary.of(4, 2, 9, 5, 4, 7, 5, 4); // squared differences from 5: 1 9 16 0 1 4 0 1, sum 32
        assertEquals(new Summary(8, 5, Math.sqrt(32.0 / 7), 4.5, 2, 9), s);
    }

    @Test
    void theMedianOfAnOddNumberOfSamplesIsTheMiddleOne() {
        assertEquals(3, Summary.of(100, 3, 1).median());
    }

    @Test
    void theStandardDeviationOfCloseTimesIsNotLostToRounding() {
        assertEquals(1e-6, Summary.of(1e6, 1e6 + 1e-6, 1e6 - 1e-6).std(), 1e-9);
    }

    @Test
    void oneSampleHasNoStandardDeviation() {
        Summary s = Summary.of(3);
        assertTrue(Double.isNaN(s.std()));
        assertEquals(3, s.median());
    }

    @Test
    void emptySamplesAreRejected() {
        assertThrows(IllegalArgumentException.class, Summary::of);
        var e = assertThrows(IllegalArgumentException.class, () -> new Samples(Metric.ms("total"), List.of()));
        assertTrue(e.getMessage().contains("total"));
    }

    @Test
    void exceptionsAreMappedToTheirStatus() {
        assertEquals(Status.OOM, Status.of(new OutOfMemoryError("Java heap space")));
        assertEquals(
                Status.OOM,
                Status.of(new RuntimeException("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has …")));
        assertEquals(
                Status.OOM,
                Status.of(
                        new IllegalStateException(
                                new RuntimeException(
                                        "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you"))));
        assertEquals(Status.UNSUPPORTED, Status.of(new UnsupportedOperationException("d = 24")));
        assertEquals(Status.ERROR, Status.of(new RuntimeException("CUDA error: an illegal memory access")));
        assertEquals(Status.ERROR, Status.of(new RuntimeException()));
        assertEquals("oom", Status.OOM.toString());
    }
}
