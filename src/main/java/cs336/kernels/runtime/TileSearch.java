package cs336.kernels.runtime;

import cs336.bench.DeviceTimer;
import cs336.torch.CudaGraph;
import cs336.torch.Device;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;

/**
 * The search for the fastest tile of each generated kernel, like PyTorch's {@code torch.backends.cudnn.benchmark} for
 * convolutions. While it is enabled, the first launch of a generated kernel on a GPU compiles and times the kernel with
 * every plausible tile, and this process keeps the fastest one. This takes seconds per kernel; equal kernels, as those
 * of a model's layers, are searched once. Other tiles sum in another order, so results may differ in their last bits.
 *
 * <p>By default it is disabled, and a rule chooses the tile.
 */
public final class TileSearch {
    private static final int RUNS = 20;
    private static final int ROUNDS = 4; // the first one warms up
    private static volatile boolean enabled;

    private TileSearch() {}

    /** Enables or disables the search for kernels that are launched for the first time from now on. */
    public static void enable(boolean isEnabled) {
        enabled = isEnabled;
    }

    /**
     * Returns whether the search is enabled and no CUDA graph is being captured, because a captured launch cannot be
     * timed.
     */
    public static boolean isEnabled() {
        return enabled && CudaGraph.captureInProgress() == 0;
    }

    /**
     * Returns the fastest of some forms of a kernel, by the time of a CUDA graph of back-to-back launches.
     *
     * @param candidates forms that compute the same from the same inputs, at least one
     * @param launch launches a form on the current stream; must not change the inputs
     * @throws IllegalArgumentException if there is no candidate
     */
    public static <T> T fastest(List<T> candidates, Device device, Consumer<T> launch) {
        Objects.requireNonNull(device, "device must not be null");
        Objects.requireNonNull(launch, "launch must not be null");
        if (candidates.isEmpty()) {
            throw new IllegalArgumentException("candidates must not be empty");
        }
        T fastest = candidates.get(0);
        double shortest = Double.POSITIVE_INFINITY;
        for (T candidate : candidates) {
            double ms = ms(device, () -> launch.accept(candidate));
            if (ms < shortest) {
                shortest = ms;
                fastest = candidate;
            }
        }
        return fastest;
    }

    /** Returns the milliseconds of some launches, infinite if the tile needs more shared memory than there is. */
    private static double ms(Device device, Runnable launch) {
        try (var graph = CudaGraph.on(device);
                var timer = DeviceTimer.on(device, 2)) {
            graph.warmUp(launch);
            graph.record(() -> {
                for (int i = 0; i < RUNS; i++) {
                    launch.run();
                }
            });
            double shortest = Double.POSITIVE_INFINITY;
            for (int round = 0; round < ROUNDS; round++) {
                timer.mark(0);
                graph.replay();
                timer.mark(1);
                shortest = Math.min(shortest, timer.ms(0, 1));
            }
            return shortest;
        } catch (KernelCompileException e) {
            return Double.POSITIVE_INFINITY;
        }
    }
}
