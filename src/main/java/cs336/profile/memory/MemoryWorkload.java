package cs336.profile.memory;

import cs336.basics.TransformerConfig;
import cs336.bench.Case;
import cs336.bench.Metric;
import cs336.bench.ModelCase;
import cs336.bench.ModelCases;
import cs336.bench.Pass;
import cs336.bench.Precision;
import cs336.bench.Samples;
import cs336.bench.Workload;
import cs336.scaling.ModelMemory;
import cs336.torch.DType;
import cs336.torch.Device;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.function.Consumer;
import java.util.stream.Stream;

/**
 * {@link PassMemory} as a case of a sweep. Its numbers are of the second run:
 *
 * <ol>
 *   <li>{@code peak-memory}: the most bytes in use; {@code peak-memory-first-run}: in the first run.
 *   <li>{@code peak-parameters} … {@code peak-other}: what they held at that moment, by {@link MemoryCategory}; their
 *       sum is the peak.
 *   <li>{@code predicted-peak-memory}: by {@link ModelMemory}, for the models that it knows.
 *   <li>{@code kept-memory}: what the forward pass left for the backward pass; {@code predicted-kept-memory}.
 *   <li>{@code largest-allocation}: the largest block that was allocated; {@code residual-stream}: a block of the
 *       residual stream.
 * </ol>
 *
 * Into {@linkplain ModelCases#folder the case's folder} it writes {@code timeline.csv}, {@code largest.csv} and
 * {@code memory_snapshot.pickle}.
 */
public final class MemoryWorkload implements Workload {
    /** How many points a stored timeline has. */
    private static final int POINTS = 300;

    private static final int LARGEST = 20;

    private static final Metric PEAK = Metric.bytes("peak-memory");
    private static final Metric PEAK_OF_FIRST_RUN = Metric.bytes("peak-memory-first-run");
    private static final Metric PREDICTED_PEAK = Metric.bytes("predicted-peak-memory");
    private static final Metric KEPT = Metric.bytes("kept-memory");
    private static final Metric PREDICTED_KEPT = Metric.bytes("predicted-kept-memory");
    private static final Metric LARGEST_ALLOCATION = Metric.bytes("largest-allocation");
    private static final Metric RESIDUAL_STREAM = Metric.bytes("residual-stream");

    /** The case of a model; {@code device} is still to be set. */
    public static Case of(ModelCase of, Path folder) {
        Case c = ModelCases.of(MemoryWorkload.class, of)
                .setting("folder", folder)
                .yields(PEAK, PEAK_OF_FIRST_RUN)
                .yields(Stream.of(MemoryCategory.values())
                        .map(MemoryWorkload::atPeak)
                        .toArray(Metric[]::new))
                .yields(KEPT, LARGEST_ALLOCATION, RESIDUAL_STREAM);
        return isPredicted(of.model().config()) ? c.yields(PREDICTED_PEAK, PREDICTED_KEPT) : c;
    }

    private static boolean isPredicted(TransformerConfig config) {
        return config.normalization().equals("rmsnorm") && config.attention().equals("plain");
    }

    private static Metric atPeak(MemoryCategory category) {
        return Metric.bytes("peak-" + category.column());
    }

    @Override
    public void run(Case c, Consumer<Samples> record) throws IOException {
        TransformerConfig config = ModelCases.config(c);
        Device device = Device.parse(c.text("device"));
        Precision precision = Precision.parse(c.text("dtype"));
        Pass pass = Pass.parse(c.text("pass"));
        int batch = c.integer("batch");

        MemoryRecord memory =
                PassMemory.of(config, device).batch(batch).precision(precision).record(pass);
        MemoryPhase first = memory.phase(PassMemory.FORWARD, 0);
        MemoryPhase forward = memory.phase(PassMemory.FORWARD, 1);
        int peak = memory.peakEvent(forward.from(), memory.events());
        record.accept(Samples.once(PEAK, memory.bytes(peak)));
        record.accept(Samples.once(PEAK_OF_FIRST_RUN, memory.bytes(memory.peakEvent(first.from(), forward.from()))));
        for (Map.Entry<MemoryCategory, Long> part : memory.breakdown(peak).entrySet()) {
            record.accept(Samples.once(atPeak(part.getKey()), part.getValue()));
        }
        long kept = memory.breakdown(forward.until() - 1).get(MemoryCategory.ACTIVATIONS);
        record.accept(Samples.once(KEPT, kept));
        record.accept(Samples.once(
                LARGEST_ALLOCATION,
                memory.allocations().stream()
                        .filter(a -> a.from() >= forward.from())
                        .mapToLong(Allocation::bytes)
                        .max()
                        .orElse(0)));
        record.accept(Samples.once(
                RESIDUAL_STREAM,
                memory.allocations().stream()
                        .filter(a -> a.from() >= forward.from() && a.place().equals("TransformerLM/layers.0"))
                        .mapToLong(Allocation::bytes)
                        .min()
                        .orElse(0)));
        if (isPredicted(config)) {
            var predicted = new ModelMemory(config, batch, autocast(precision), device.kind());
            record.accept(Samples.once(PREDICTED_PEAK, predicted.peak(pass).bytes()));
            record.accept(Samples.once(PREDICTED_KEPT, pass == Pass.FORWARD ? 0 : predicted.keptBytes()));
        }

        Path folder = Files.createDirectories(ModelCases.folder(c));
        memory.timeline(first.from(), memory.events(), POINTS).write(folder.resolve("timeline.csv"));
        memory.largest(forward.from(), memory.events(), LARGEST)
                .write()
                .csv(folder.resolve("largest.csv").toString());
        memory.saveSnapshot(folder.resolve("memory_snapshot.pickle"));
    }

    /** The type that matrix products take: TF32 is a way to multiply fp32. */
    private static DType autocast(Precision precision) {
        return precision.tf32() ? DType.FLOAT32 : DType.parse(precision.toString());
    }
}
