package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

class StopwatchTest {
    private static void sleep(int ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Test
    void warmUpStepsRunButAreNotTimed() {
        var runs = new AtomicInteger();
        Timing timing = Stopwatch.on(Device.cpu()).warmup(2).steps(3).time("nap", () -> {
            if (runs.incrementAndGet() <= 2) {
                sleep(200);
            }
        });
        assertEquals(5, runs.get());
        assertEquals(3, timing.wall().values().size());
        // The median, because one step may be slow under load. If the warm-up were timed, two of three steps would be.
        assertTrue(timing.summary().median() < 150, timing.toString());
    }

    @Test
    void withoutWarmUpTheFirstStepIsTimed() {
        var runs = new AtomicInteger();
        Timing timing = Stopwatch.on(Device.cpu()).warmup(0).steps(3).time("nap", () -> {
            if (runs.incrementAndGet() == 1) {
                sleep(200);
            }
        });
        assertTrue(timing.wall().values().get(0) >= 200, timing.toString());
        assertTrue(timing.summary().min() < 150, timing.toString());
    }

    @Test
    void phasesAreTimedSeparately() {
        Map<String, Timing> laps = Stopwatch.on(Device.cpu()).warmup(1).steps(2).laps(lap -> {
            sleep(5);
            lap.end("short");
            sleep(200);
            lap.end("long");
        });
        assertEquals(List.of("short", "long"), List.copyOf(laps.keySet()));
        assertEquals(Metric.ms("short"), laps.get("short").wall().metric());
        assertEquals(2, laps.get("long").wall().values().size());
        assertTrue(laps.get("short").summary().min() >= 5);
        assertTrue(laps.get("short").summary().min() < 150);
        assertTrue(laps.get("long").summary().min() >= 200);
    }

    @Test
    void theCpuHasNoEvents() {
        Timing timing = Stopwatch.on(Device.cpu()).warmup(0).steps(1).time("x", () -> {});
        assertNull(timing.events());
        assertEquals(List.of(timing.wall()), timing.samples());
    }

    @Test
    void stepsBelowOneAndWarmUpBelowZeroAreRejected() {
        var stopwatch = Stopwatch.on(Device.cpu());
        assertEquals(
                "steps must be at least 1, not 0",
                assertThrows(IllegalArgumentException.class, () -> stopwatch.steps(0))
                        .getMessage());
        assertEquals(
                "warmup must be at least 0, not -1",
                assertThrows(IllegalArgumentException.class, () -> stopwatch.warmup(-1))
                        .getMessage());
    }

    @Test
    @Tag("gpu")
    void onAGpuWallAndEventTimesAgreeAndUnsynchronizedTimesAreTooShort() {
        Device gpu = Device.cuda(0);
        try (var scope = MemoryScope.open()) {
            Tensor x = torch.randn(new long[] {8192, 8192}, gpu.options(DType.FLOAT32));
            Runnable matmul = () -> x.matmul(x).close();
            Timing right = Stopwatch.on(gpu).warmup(3).steps(5).time("matmul", matmul);
            Timing wrong =
                    Stopwatch.on(gpu).warmup(3).steps(5).synchronize(false).time("matmul", matmul);
            double wall = right.summary().median();
            assertEquals(wall, right.events().summary().median(), 0.1 * wall);
            assertEquals(Metric.ms("matmul-events"), right.events().metric());
            assertTrue(wrong.summary().median() < wall / 10, wrong + " against " + right);
            assertNull(wrong.events());
        }
    }
}
