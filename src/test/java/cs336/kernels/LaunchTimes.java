package cs336.kernels;

import cs336.bench.DeviceTimer;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.Arrays;

/** Short measurements of kernels, for searches among many tiles. */
public final class LaunchTimes {
    private static final int GROUPS = 5;
    private static final double GROUP_MS = 4;

    private LaunchTimes() {}

    /** Returns the time of a run in ms: the median over {@value #GROUPS} groups of runs, after two runs of warm-up. */
    public static double medianMs(Device device, Runnable run) {
        try (var timer = DeviceTimer.on(device, 2)) {
            int runs = (int) Math.max(1, GROUP_MS / ms(timer, 2, run));
            double[] ms = new double[GROUPS];
            for (int group = 0; group < GROUPS; group++) {
                ms[group] = ms(timer, runs, run);
            }
            Arrays.sort(ms);
            return ms[GROUPS / 2];
        }
    }

    private static double ms(DeviceTimer timer, int runs, Runnable run) {
        timer.mark(0);
        for (int i = 0; i < runs; i++) {
            try (var scope = MemoryScope.open()) {
                run.run();
            }
        }
        timer.mark(1);
        return timer.ms(0, 1) / runs;
    }
}
