package cs336.distributed.bench;

import static cs336.units.UnitFactors.MB;

import cs336.basics.Batches;
import cs336.basics.Losses;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Metric;
import cs336.distributed.collectives.ProcessGroup;
import cs336.profile.memory.MemoryCategory;
import cs336.profile.memory.MemoryPhase;
import cs336.profile.memory.MemoryProfile;
import cs336.profile.memory.MemoryRecord;
import cs336.scaling.memory.MemoryInventory;
import cs336.scaling.memory.ModelMemory;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.ProfilerRange;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;

/**
 * The memory of one rank at three points around the first optimizer step: {@code init}, when model, wrapper and
 * optimizer exist; {@code before-step}, directly before the step; {@code after-step}, directly after it. The metrics of
 * each point, here for {@code init}, in bytes:
 *
 * <ol>
 *   <li>{@code init}: memory in use; {@code init-parameters} … {@code init-other}: by {@link MemoryCategory};
 *       {@code init-predicted}: as predicted by {@link ShardedMemory};
 *   <li>{@code init-peak}: peak memory since the previous point; {@code init-peak-parameters} …,
 *       {@code init-peak-predicted}.
 * </ol>
 *
 * <p>{@code second-step-peak}, also by category and as predicted, is the peak of the second step. It is the first one
 * that computes activations while the moments are in memory, as all later steps do.
 *
 * <p>Buckets count as gradients from the time they are allocated.
 */
final class FirstStepsMemory {
    private static final String INITIALIZATION = "initialization";
    private static final String FORWARD = "forward";
    private static final String BACKWARD = "backward";
    private static final String STEP = "step";
    static final List<String> POINTS = List.of("init", "before-step", "after-step");
    static final String SECOND_STEP_PEAK = "second-step-peak";

    private FirstStepsMemory() {}

    /** Returns the metrics of all points. */
    static Metric[] metrics() {
        return Stream.concat(
                        POINTS.stream().flatMap(point -> Stream.of(point, point + "-peak")),
                        Stream.of(SECOND_STEP_PEAK))
                .flatMap(FirstStepsMemory::names)
                .map(Metric::bytes)
                .toArray(Metric[]::new);
    }

    /** Returns the names of the metrics of a point, or of a peak. */
    private static Stream<String> names(String when) {
        return Stream.concat(
                Stream.of(when, when + "-predicted"),
                Stream.of(MemoryCategory.values()).map(category -> metric(when, category)));
    }

    private static String metric(String when, MemoryCategory category) {
        return when + "-" + category.column();
    }

    /** Trains two steps, frees everything and returns the bytes by the names of {@link #metrics}. */
    static LinkedHashMap<String, Double> measure(ProcessGroup group, RankCase c) {
        TransformerConfig config = c.model().config();
        ShardMode mode = ShardMode.parse(c.mode());
        warmUp(group, config, mode);
        try (var profile = MemoryProfile.start(group.device());
                var scope = MemoryScope.open()) {
            MemoryRecord record = record(profile, group, c);
            var model = new ModelMemory(
                    config, c.model().batch(), DType.FLOAT32, group.device().kind());
            var predicted = new ShardedMemory(model, group.size(), mode.isSharded(), (long) (c.bucketMb() * MB));
            return numbers(record, predicted);
        }
    }

    /** Makes libraries allocate memory that they keep, such as cuBLAS's workspaces, before the recording. */
    private static void warmUp(ProcessGroup group, TransformerConfig config, ShardMode mode) {
        TransformerConfig tiny = TransformerConfig.builder()
                .edition(config.edition())
                .vocabSize(16)
                .contextLength(8)
                .dModel(8)
                .numLayers(1)
                .numHeads(1)
                .dFf(8)
                .normalization(config.normalization())
                .attention(config.attention())
                .build();
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(tiny, group.device());
                var training = ShardTraining.of(mode, model, group, 1)) {
            step(training, Batches.random(16, 1, 8, group.device(), 0).next());
            update(training);
        }
    }

    private static MemoryRecord record(MemoryProfile profile, ProcessGroup group, RankCase c) {
        TransformerLM model;
        ShardTraining training;
        try (var phase = ProfilerRange.of(INITIALIZATION)) {
            model = new TransformerLM(c.model().config(), group.device());
            training = ShardTraining.of(ShardMode.parse(c.mode()), model, group, c.bucketMb());
        }
        try (model;
                training) {
            Batches.Batch batch = c.batch(group);
            profile.mark(MemoryCategory.PARAMETERS, model.namedParameters());
            step(training, batch);
            profile.markGradients(model.namedParameters());
            update(training);
            Map<String, Tensor> moments =
                    new LinkedHashMap<>(training.optimizer().state());
            moments.keySet().removeIf(name -> name.endsWith(".step"));
            profile.mark(MemoryCategory.OPTIMIZER_STATE, moments);
            training.optimizer().zeroGrad();
            step(training, batch);
            update(training);
            return profile.stop();
        }
    }

    private static void step(ShardTraining training, Batches.Batch batch) {
        try (var scope = MemoryScope.open()) {
            Tensor loss;
            try (var phase = ProfilerRange.of(FORWARD)) {
                loss = Losses.crossEntropy(training.ddp().forward(batch.inputs()), batch.targets());
            }
            try (var phase = ProfilerRange.of(BACKWARD)) {
                Backward.of(loss).run();
                training.ddp().finishGradientSynchronization();
            }
        }
    }

    private static void update(ShardTraining training) {
        try (var phase = ProfilerRange.of(STEP)) {
            training.optimizer().step();
            training.awaitParameters();
        }
    }

    private static LinkedHashMap<String, Double> numbers(MemoryRecord record, ShardedMemory predicted) {
        MemoryPhase init = record.phase(INITIALIZATION, 0);
        MemoryPhase step = record.phase(STEP, 0);
        int[] ends = {init.until(), step.from(), step.until()};
        List<MemoryInventory> points = predicted.points();
        List<MemoryInventory> peaks = predicted.peaks();
        var numbers = new LinkedHashMap<String, Double>();
        int from = 0;
        for (int i = 0; i < ends.length; i++) {
            put(numbers, POINTS.get(i), record, ends[i] - 1, points.get(i));
            putPeak(numbers, POINTS.get(i) + "-peak", record, from, ends[i], peaks.get(i));
            from = ends[i];
        }
        int end = record.phase(STEP, 1).until();
        putPeak(numbers, SECOND_STEP_PEAK, record, from, end, predicted.peakOfStep());
        return numbers;
    }

    /** Puts the largest memory in use between two events. */
    private static void putPeak(
            Map<String, Double> numbers,
            String when,
            MemoryRecord record,
            int from,
            int until,
            MemoryInventory predicted) {
        int previous = Math.max(0, from - 1);
        put(numbers, when, record, record.peakEvent(previous, Math.max(previous + 1, until)), predicted);
    }

    /** Puts the memory in use after an event. */
    private static void put(
            Map<String, Double> numbers, String when, MemoryRecord record, int event, MemoryInventory predicted) {
        numbers.put(when, (double) record.bytes(event));
        numbers.put(when + "-predicted", (double) predicted.bytes());
        record.breakdown(event).forEach((category, bytes) -> numbers.put(metric(when, category), (double) bytes));
    }
}
