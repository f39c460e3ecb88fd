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
import cs336.scaling.memory.ModelMemory;
import cs336.torch.Device;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.function.Consumer;
import java.util.stream.Stream;

/**
 * The workload of {@code cs336 memory}: one {@link PassMemory} per case. Its metrics, all in bytes, are those of the
 * second run of the pass:
 *
 * <ol>
 *   <li>{@code peak-memory}: peak of the memory in use; {@code peak-memory-first-run}: the same in the first run.
 *   <li>{@code peak-parameters} … {@code peak-other}: memory in use at the peak by {@link MemoryCategory}; the sum is
 *       the peak.
 *   <li>{@code predicted-peak-memory}: the prediction of {@link ModelMemory}, for the models that it covers.
 *   <li>{@code kept-memory}: activations that the forward pass saves for the backward pass, and its prediction
 *       {@code predicted-kept-memory}.
 *   <li>{@code largest-allocation}: the largest allocated block; {@code residual-stream}: one tensor of the residual
 *       stream.
 * </ol>
 *
 * It writes {@code timeline.csv}, {@code largest.csv} and {@code memory_snapshot.pickle} to
 * {@linkplain ModelCases#folder the folder of the case}.
 */
public final class MemoryWorkload implements Workload {
    private static final int TIMELINE_POINTS = 300;
    private static final int LARGEST_ROWS = 20;

    private static final Metric PEAK = Metric.bytes("peak-memory");
    private static final Metric PEAK_OF_FIRST_RUN = Metric.bytes("peak-memory-first-run");
    private static final Metric PREDICTED_PEAK = Metric.bytes("predicted-peak-memory");
    private static final Metric KEPT = Metric.bytes("kept-memory");
    private static final Metric PREDICTED_KEPT = Metric.bytes("predicted-kept-memory");
    private static final Metric LARGEST_ALLOCATION = Metric.bytes("largest-allocation");
    private static final Metric RESIDUAL_STREAM = Metric.bytes("residual-stream");

    /** Returns the case of a model, without its device. */
    public static Case of(ModelCase of, Path folder) {
        Case c = ModelCases.of(MemoryWorkload.class, of)
                .setting("folder", folder)
                .yields(PEAK, PEAK_OF_FIRST_RUN)
                .yields(Stream.of(MemoryCategory.values())
                        .map(MemoryWorkload::atPeak)
                        .toArray(Metric[]::new))
                .yields(KEPT, LARGEST_ALLOCATION, RESIDUAL_STREAM);
        return ModelMemory.isPredicted(of.model().config()) ? c.yields(PREDICTED_PEAK, PREDICTED_KEPT) : c;
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
        for (Map.Entry<MemoryCategory, Long> category : memory.breakdown(peak).entrySet()) {
            record.accept(Samples.once(atPeak(category.getKey()), category.getValue()));
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
        if (ModelMemory.isPredicted(config)) {
            var predicted = new ModelMemory(config, batch, precision.compute(), device.kind());
            record.accept(Samples.once(PREDICTED_PEAK, predicted.peak(pass).bytes()));
            record.accept(Samples.once(PREDICTED_KEPT, pass == Pass.FORWARD ? 0 : predicted.keptBytes()));
        }

        Path folder = Files.createDirectories(ModelCases.folder(c));
        memory.timeline(first.from(), memory.events(), TIMELINE_POINTS).write(folder.resolve("timeline.csv"));
        memory.largest(forward.from(), memory.events(), LARGEST_ROWS)
                .write()
                .csv(folder.resolve("largest.csv").toString());
        memory.saveSnapshot(folder.resolve("memory_snapshot.pickle"));
    }
}
