package cs336.bench;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.cuda.CUDAEvent;
import org.bytedeco.pytorch.global.torch;

/**
 * Times code by the protocol of Triton's {@code triton.testing.do_bench}, so that numbers from Java and from Python
 * compare:
 *
 * <ol>
 *   <li>One run that nothing is known of yet, waited for.
 *   <li>{@value #ESTIMATED} runs together estimate how long one takes.
 *   <li>Warm-up and repetition, given in milliseconds, become counts by that estimate; each is at least 1.
 *   <li>The warm-up runs.
 *   <li>The timed runs, one after the other without waiting. Before each the card clears a buffer larger than its L2
 *       cache, so that no run finds its inputs there, and while it does, the host queues what comes next. An event
 *       before and one after a run take its time. The card is waited for once, at the end.
 * </ol>
 *
 * The buffer is cleared during the estimate too, and not in the warm-up. On the CPU the wall clock takes the events'
 * place and nothing is cleared.
 *
 * <p>What a {@link Stopwatch} times begins with an idle card and includes the host's part. Here the host's part shows
 * only where it outlasts the card's.
 *
 * <pre>{@code
 * Samples ms = DoBench.on(device).warmup(25).rep(100).time("forward", () -> attention.apply(q, k, v, true));
 * }</pre>
 */
public final class DoBench {
    private static final int ESTIMATED = 5;
    private static final long CLEARED_BYTES = 256L << 20;
    private static final double NANOS_PER_MS = 1e6;

    private final Device device;
    private int warmup = 25;
    private int rep = 100;

    private DoBench(Device device) {
        this.device = device;
    }

    /** Of 25 ms warm-up and 100 ms repetition, as in Triton. */
    public static DoBench on(Device device) {
        return new DoBench(device);
    }

    /** For about how long to run before timing begins, in ms, at least 0. */
    public DoBench warmup(int ms) {
        warmup = ArgumentCheck.atLeast("warmup", 0, ms);
        return this;
    }

    /** For about how long to time, in ms, at least 1. */
    public DoBench rep(int ms) {
        rep = ArgumentCheck.atLeast("rep", 1, ms);
        return this;
    }

    /** How many runs of each kind there are. */
    record Counts(int warmup, int timed) {
        static Counts of(double estimateMs, int warmupMs, int repMs) {
            return new Counts(count(warmupMs, estimateMs), count(repMs, estimateMs));
        }

        private static int count(int ms, double estimateMs) {
            return Math.max(1, (int) (ms / estimateMs));
        }
    }

    /**
     * Times a run, again and again. What a run makes is freed after it, before the next.
     *
     * @param metric name of the times
     * @return one time in ms for each timed run
     */
    public Samples time(String metric, Runnable run) {
        device.makeCurrent();
        try (Clock clock = device.isCuda() ? new CardClock() : new WallClock()) {
            once(run);
            device.synchronize();
            Counts counts = Counts.of(clock.together(ESTIMATED, run) / ESTIMATED, warmup, rep);
            for (int i = 0; i < counts.warmup; i++) {
                once(run);
            }
            return new Samples(Metric.ms(metric), clock.each(counts.timed, run));
        }
    }

    private static void once(Runnable run) {
        try (var scope = MemoryScope.open()) {
            run.run();
        }
    }

    /** Takes times in ms. */
    private interface Clock extends AutoCloseable {
        double together(int runs, Runnable run);

        List<Double> each(int runs, Runnable run);

        @Override
        void close();
    }

    private static final class WallClock implements Clock {
        @Override
        public double together(int runs, Runnable run) {
            return each(runs, run).stream().mapToDouble(Double::doubleValue).sum();
        }

        @Override
        public List<Double> each(int runs, Runnable run) {
            List<Double> ms = new ArrayList<>();
            for (int i = 0; i < runs; i++) {
                long started = System.nanoTime();
                once(run);
                ms.add((System.nanoTime() - started) / NANOS_PER_MS);
            }
            return ms;
        }

        @Override
        public void close() {}
    }

    private final class CardClock implements Clock {
        private static final int WITH_TIMES = 0; // cudaEventDefault; torch's own default switches times off

        // In no memory scope: a run's scope would free them.
        private final Tensor buffer = MemoryScope.keep(
                torch.zeros(new long[] {CLEARED_BYTES / DType.INT32.bytes()}, device.options(DType.INT32)));
        private final List<CUDAEvent> begins = new ArrayList<>();
        private final List<CUDAEvent> ends = new ArrayList<>();

        @Override
        public double together(int runs, Runnable run) {
            events(1);
            begins.get(0).record();
            for (int i = 0; i < runs; i++) {
                clear();
                once(run);
            }
            ends.get(0).record();
            return elapsed(1).get(0);
        }

        @Override
        public List<Double> each(int runs, Runnable run) {
            events(runs);
            for (int i = 0; i < runs; i++) {
                clear();
                begins.get(i).record();
                once(run);
                ends.get(i).record();
            }
            return elapsed(runs);
        }

        private void events(int pairs) {
            while (begins.size() < pairs) {
                begins.add(MemoryScope.keep(new CUDAEvent(WITH_TIMES)));
                ends.add(MemoryScope.keep(new CUDAEvent(WITH_TIMES)));
            }
        }

        private void clear() {
            try (var scope = MemoryScope.open()) {
                buffer.zero_();
            }
        }

        private List<Double> elapsed(int pairs) {
            device.synchronize();
            List<Double> ms = new ArrayList<>();
            for (int i = 0; i < pairs; i++) {
                ms.add((double) begins.get(i).elapsed_time(ends.get(i)));
            }
            return ms;
        }

        @Override
        public void close() {
            Stream.concat(begins.stream(), ends.stream()).forEach(CUDAEvent::close);
            buffer.close();
        }
    }
}
