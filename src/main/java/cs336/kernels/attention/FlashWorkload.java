package cs336.kernels.attention;

import cs336.basics.Attention;
import cs336.bench.Case;
import cs336.bench.Metric;
import cs336.bench.Samples;
import cs336.bench.Workload;
import cs336.torch.DType;
import cs336.torch.Device;
import java.util.function.Consumer;

/** A {@link FlashBenchmark} as a case of a sweep. */
public final class FlashWorkload implements Workload {
    /** Of the case before, if its process is this one: plain attention frees its mask only when it makes another. */
    private Attention attention;

    /** The case of an attention under its name; {@code device}, {@code warmup} and {@code rep} are still to be set. */
    static Case of(String attention, int batch, int heads, int d, int context, String dtype, boolean causal) {
        return Case.of(FlashWorkload.class, attention)
                .with("batch", batch)
                .with("heads", heads)
                .with("d", d)
                .with("context", context)
                .with("dtype", dtype)
                .with("causal", causal)
                .yields(FlashBenchmark.METRICS.toArray(Metric[]::new));
    }

    /** @throws OutOfMemoryError on the CPU where plain attention would not fit */
    @Override
    public void run(Case c, Consumer<Samples> record) {
        Device device = Device.parse(c.text("device"));
        DType dtype = DType.parse(c.text("dtype"));
        boolean causal = Boolean.parseBoolean(c.text("causal"));
        int sequences = Math.multiplyExact(c.integer("batch"), c.integer("heads"));
        AttentionWorkload.requireFits(
                c.implementation(), device, sequences, c.integer("context"), c.integer("d"), dtype, causal);
        if (attention == null || !attention.name().equals(c.implementation())) {
            attention = Attention.named(c.implementation());
        }
        FlashBenchmark.of(attention)
                .device(device)
                .dtype(dtype)
                .causal(causal)
                .batch(c.integer("batch"))
                .heads(c.integer("heads"))
                .context(c.integer("context"))
                .d(c.integer("d"))
                .warmup(c.integer("warmup"))
                .rep(c.integer("rep"))
                .run(record);
    }
}
