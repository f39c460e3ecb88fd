package cs336.kernels.attention;

import cs336.basics.Attention;
import cs336.bench.Case;
import cs336.bench.Samples;
import cs336.bench.Workload;
import cs336.torch.Device;
import java.util.function.Consumer;

/** The workload of a sweep that measures cases of attention, each by its {@link AttentionProtocol}. */
public final class AttentionWorkload implements Workload {
    /**
     * The implementation of the previous case. It is reused because plain attention frees its cached mask only when it
     * creates another.
     */
    private Attention attention;

    /** @throws OutOfMemoryError on the CPU if plain attention would not fit into memory */
    @Override
    public void run(Case c, Consumer<Samples> record) {
        AttentionCase options = AttentionCase.of(c);
        Device device = Device.parse(c.text("device"));
        options.requireFits(device);
        if (attention == null || !attention.name().equals(options.attention())) {
            attention = Attention.named(options.attention());
        }
        AttentionProtocol protocol = AttentionProtocol.of(c);
        new AttentionRun(options, attention, device, record)
                .measure(protocol, c.integer("warmup"), protocol.repetition(c));
    }
}
