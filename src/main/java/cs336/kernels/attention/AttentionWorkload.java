package cs336.kernels.attention;

import cs336.bench.Case;
import cs336.bench.Metric;
import cs336.bench.Samples;
import cs336.bench.Workload;
import cs336.scaling.AttentionMemory;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryStats;
import java.util.function.Consumer;

/** An {@link AttentionBenchmark} as a case of a sweep. */
public final class AttentionWorkload implements Workload {
    /** The case of an attention under its name; {@code device} is still to be set. */
    static Case of(
            String attention, int batch, int d, int context, String dtype, boolean causal, int warmup, int steps) {
        return Case.of(AttentionWorkload.class, attention)
                .with("batch", batch)
                .with("d", d)
                .with("context", context)
                .with("dtype", dtype)
                .with("causal", causal)
                .with("warmup", warmup)
                .with("steps", steps)
                .yields(AttentionBenchmark.METRICS.toArray(Metric[]::new));
    }

    /** @throws OutOfMemoryError on the CPU where plain attention would not fit */
    @Override
    public void run(Case c, Consumer<Samples> record) {
        Device device = Device.parse(c.text("device"));
        DType dtype = DType.parse(c.text("dtype"));
        boolean causal = Boolean.parseBoolean(c.text("causal"));
        requireFits(
                c.implementation(), device, c.integer("batch"), c.integer("context"), c.integer("d"), dtype, causal);
        AttentionBenchmark.of(c.implementation())
                .device(device)
                .dtype(dtype)
                .causal(causal)
                .batch(c.integer("batch"))
                .context(c.integer("context"))
                .d(c.integer("d"))
                .warmup(c.integer("warmup"))
                .steps(c.integer("steps"))
                .run(record);
    }

    /**
     * Refuses on the CPU what plain attention would not fit into: Linux would end some process instead.
     *
     * @param batch sequences times heads
     */
    static void requireFits(
            String attention, Device device, int batch, int context, int d, DType dtype, boolean causal) {
        if (device.isCuda() || !attention.equals("plain")) {
            return;
        }
        long needed = new AttentionMemory(batch, context, d, dtype, causal, device.kind()).peakBytes();
        long available = MemoryStats.available(device);
        if (needed > available) {
            throw new OutOfMemoryError("%.1f GB needed, %.1f GB available".formatted(needed / 1e9, available / 1e9));
        }
    }
}
