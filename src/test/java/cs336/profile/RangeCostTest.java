package cs336.profile;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.TinyConfig;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Benchmark;
import cs336.bench.Pass;
import cs336.torch.Device;
import cs336.torch.ProfilerRange;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;

class RangeCostTest {
    private static final Device CPU = Device.cpu();

    @Test
    void rangesWithoutListenersTakeLessThanAThousandthOfASmallStep() {
        TransformerConfig config = TinyConfig.create();
        try (var model = new TransformerLM(config, CPU);
                var step = Benchmark.of(model).batch(2).step(Pass.STEP)) {
            RangeCost cost = RangeCost.of(CPU, step::run);
            assertTrue(cost.fraction() < 0.001, cost.toString());
        }
    }

    @Test
    void theRangesOfAStepAreCountedAndTimed() {
        RangeCost cost = RangeCost.of(CPU, () -> {
            for (int i = 0; i < 3; i++) {
                ProfilerRange.of("short").close();
            }
            LockSupport.parkNanos(1_000_000);
        });
        assertEquals(3, cost.ranges());
        assertTrue(cost.each() > 0, cost.toString());
        assertTrue(cost.step() > 0.9e6, cost.toString());
        assertEquals(0.00001, new RangeCost(20, 1.5, 3e6).fraction(), 1e-15);
    }

    @Test
    void timingIsRejectedWhileAProfilerRuns() {
        try (var profiler = Profiler.start(ProfilerOptions.standard().cpuOnly())) {
            assertThrows(IllegalStateException.class, () -> RangeCost.of(CPU, () -> {}));
        }
        assertEquals(0, RangeCost.of(CPU, () -> {}).ranges());
    }
}
