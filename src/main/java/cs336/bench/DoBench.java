package cs336.bench;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.units.HostLoad;
import java.util.List;
import java.util.Objects;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A timer for kernels that follows the protocol of Triton's {@code triton.testing.do_bench}, so that times measured
 * from Java and from Python are comparable:
 *
 * <ol>
 *   <li>Run once and synchronize.
 *   <li>Time {@value #ESTIMATION_RUNS} runs together to estimate the time of one.
 *   <li>Convert the warm-up and repetition times to numbers of runs, each at least 1.
 *   <li>Run the warm-up.
 *   <li>Queue the timed runs back to back, each between two CUDA events, then synchronize once. A buffer larger than
 *       the GPU's L2 cache is cleared before each run, so that no run finds its inputs in the cache. While the GPU
 *       clears it, the host queues the run, which hides the launch overhead.
 * </ol>
 *
 * The estimate includes the time to clear the buffer. The warm-up does not clear it. On the CPU the times are wall
 * times and no buffer is cleared.
 *
 * <p>A time measured by {@link Stopwatch} starts on an idle GPU and includes launch overhead. A time measured here
 * includes it only if the host queues work more slowly than the GPU runs it.
 *
 * <pre>{@code
 * Samples ms = DoBench.on(device).warmup(25).rep(100).time("forward", () -> attention.apply(q, k, v, true));
 * }</pre>
 */
public final class DoBench {
    private static final int ESTIMATION_RUNS = 5;
    private static final long CACHE_BUFFER_BYTES = 256L << 20;

    private final Device device;
    private int warmup = 25;
    private int rep = 100;

    private DoBench(Device device) {
        this.device = device;
    }

    /** Returns a timer with 25 ms of warm-up and 100 ms of timed runs, as in Triton. */
    public static DoBench on(Device device) {
        return new DoBench(Objects.requireNonNull(device, "device must not be null"));
    }

    /** Sets the approximate duration of the warm-up in ms, at least 0. */
    public DoBench warmup(int ms) {
        warmup = ArgumentCheck.atLeast("warmup", 0, ms);
        return this;
    }

    /** Sets the approximate total duration of the timed runs in ms, at least 1. */
    public DoBench rep(int ms) {
        rep = ArgumentCheck.atLeast("rep", 1, ms);
        return this;
    }

    /** The numbers of warm-up and timed runs. */
    record Counts(int warmup, int timed) {
        static Counts of(double estimateMs, int warmupMs, int repMs) {
            return new Counts(count(warmupMs, estimateMs), count(repMs, estimateMs));
        }

        private static int count(int ms, double estimateMs) {
            return Math.max(1, (int) (ms / estimateMs));
        }
    }

    /**
     * Times repeated runs. The tensors that a run creates are freed when it ends.
     *
     * @param metric name of the metric under which the times are returned
     * @return the time of each timed run in ms
     */
    public Samples time(String metric, Runnable run) {
        HostLoad.check();
        device.makeCurrent();
        try (Tensor cacheBuffer = device.isCuda() ? cacheBuffer() : null) {
            once(run);
            device.synchronize();
            Counts counts = Counts.of(estimateMs(cacheBuffer, run), warmup, rep);
            for (int i = 0; i < counts.warmup; i++) {
                once(run);
            }
            return new Samples(Metric.ms(metric), times(counts.timed, cacheBuffer, run));
        }
    }

    private Tensor cacheBuffer() {
        long[] shape = {CACHE_BUFFER_BYTES / DType.INT32.bytes()};
        // The memory scope of a run must not free the buffer.
        return MemoryScope.keep(torch.zeros(shape, device.options(DType.INT32)));
    }

    private double estimateMs(Tensor cacheBuffer, Runnable run) {
        try (var timer = DeviceTimer.on(device, 2)) {
            timer.mark(0);
            for (int i = 0; i < ESTIMATION_RUNS; i++) {
                clear(cacheBuffer);
                once(run);
            }
            timer.mark(1);
            return timer.ms(0, 1) / ESTIMATION_RUNS;
        }
    }

    private List<Double> times(int runs, Tensor cacheBuffer, Runnable run) {
        try (var timer = DeviceTimer.on(device, 2 * runs)) {
            for (int i = 0; i < runs; i++) {
                clear(cacheBuffer);
                timer.mark(2 * i);
                once(run);
                timer.mark(2 * i + 1);
            }
            device.synchronize();
            return IntStream.range(0, runs)
                    .mapToObj(i -> timer.ms(2 * i, 2 * i + 1))
                    .toList();
        }
    }

    private static void clear(Tensor buffer) {
        if (buffer != null) {
            once(buffer::zero_);
        }
    }

    private static void once(Runnable run) {
        try (var scope = MemoryScope.open()) {
            run.run();
        }
    }
}
