package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.MemoryStats;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

class DoBenchTest {
    private static void sleep(int ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Test
    void millisecondsBecomeCountsRoundedDownButNeverNone() {
        assertEquals(new DoBench.Counts(25, 100), DoBench.Counts.of(1, 25, 100));
        assertEquals(new DoBench.Counts(7, 28), DoBench.Counts.of(3.5, 25, 100));
        assertEquals(new DoBench.Counts(1, 1), DoBench.Counts.of(250, 25, 100));
        assertEquals(new DoBench.Counts(1, 33), DoBench.Counts.of(3, 0, 100));
    }

    @Test
    void runsAreOneAndFiveThenWarmUpThenThoseThatAreTimed() {
        var runs = new AtomicInteger();
        Samples samples = DoBench.on(Device.cpu()).warmup(60).rep(100).time("nap", () -> {
            int run = runs.incrementAndGet();
            sleep(run == 1 ? 300 : 20);
        });
        int timed = samples.values().size();
        int warmup = runs.get() - 1 - 5 - timed;
        // A nap of 20 ms takes longer on a busy machine, and the counts follow the estimate.
        assertTrue(timed >= 1 && timed <= 5, "timed " + timed);
        assertTrue(warmup >= 1 && warmup <= 3, "warm-up " + warmup);
        assertEquals(Metric.ms("nap"), samples.metric());
        assertTrue(samples.summary().min() >= 20, samples.toString());
    }

    @Test
    void aRunsTensorsAreFreedBeforeTheNext() {
        List<Tensor> made = new ArrayList<>();
        DoBench.on(Device.cpu()).warmup(0).rep(1).time("make", () -> {
            assertTrue(made.stream().allMatch(t -> t.isNull()));
            sleep(2);
            made.add(torch.ones(1));
        });
        assertEquals(1 + 5 + 1 + 1, made.size());
    }

    @Test
    void uselessDurationsAreRefused() {
        var bench = DoBench.on(Device.cpu());
        assertEquals(
                "warmup must be at least 0, not -1",
                assertThrows(IllegalArgumentException.class, () -> bench.warmup(-1))
                        .getMessage());
        assertEquals(
                "rep must be at least 1, not 0",
                assertThrows(IllegalArgumentException.class, () -> bench.rep(0)).getMessage());
    }

    @Test
    @Tag("gpu")
    void onACardOnlyTheRunItselfIsTimedAndNothingIsKept() {
        Device card = Device.cuda(0);
        try (var scope = MemoryScope.open()) {
            Tensor x = torch.randn(new long[] {8192, 8192}, card.options(DType.FLOAT32));
            Runnable matmul = () -> x.matmul(x);
            matmul.run();
            DoBench.on(card).rep(1).time("matmul", matmul); // cuBLAS keeps its workspace
            long before = MemoryStats.current(card);
            double bench =
                    DoBench.on(card).rep(300).time("matmul", matmul).summary().median();
            assertEquals(before, MemoryStats.current(card));
            double stopwatch = Stopwatch.on(card)
                    .warmup(3)
                    .steps(5)
                    .time("matmul", () -> x.matmul(x).close())
                    .events()
                    .summary()
                    .median();
            assertEquals(stopwatch, bench, 0.1 * stopwatch);

            Tensor small = torch.ones(new long[] {16}, card.options(DType.FLOAT32));
            Samples quick = DoBench.on(card).rep(20).time("add", () -> small.add_(small));
            assertTrue(quick.summary().median() < 0.05, "without the 256 MB that are cleared: " + quick.summary());
            int runs = quick.values().size();
            assertTrue(runs >= 20 && runs < 400, "estimated together with what is cleared: " + runs);
        }
    }
}
