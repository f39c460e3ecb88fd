package cs336.distributed.bench;

import cs336.basics.AdamW;
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
import cs336.scaling.MemoryInventory;
import cs336.scaling.ModelMemory;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.ProfilerRange;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/**
 * The memory of one rank around the first step of its optimizer: {@code init} after model, wrapper and optimizer have
 * been made, {@code before-step} directly before the first step, {@code after-step} directly after it. For each of
 * these moments
 *
 * <ol>
 *   <li>{@code init}: the bytes in use at this moment; {@code init-parameters} … {@code init-other}: what they hold, by
 *       {@link MemoryCategory}; {@code init-predicted}: by {@link ShardedMemory};
 *   <li>{@code init-peak}: the most bytes in use since the moment before; {@code init-peak-parameters} …,
 *       {@code init-peak-predicted}.
 * </ol>
 *
 * Gradients are in buckets, which count as gradients from the moment they are there.
 */
final class FirstStepMemory {
    private static final String INITIALIZATION = "initialization";
    private static final String FORWARD = "forward";
    private static final String BACKWARD = "backward";
    private static final String STEP = "step";
    static final List<String> MOMENTS = List.of("init", "before-step", "after-step");

    private FirstStepMemory() {}

    /** The names of all numbers. */
    static Metric[] metrics() {
        var names = new LinkedHashMap<String, Metric>();
        for (String moment : MOMENTS) {
            for (String suffix : List.of("", "-peak", "-predicted", "-peak-predicted")) {
                names.put(moment + suffix, Metric.bytes(moment + suffix));
            }
            for (MemoryCategory category : MemoryCategory.values()) {
                for (String when : List.of(moment, moment + "-peak")) {
                    String name = part(when, category);
                    names.put(name, Metric.bytes(name));
                }
            }
        }
        return names.values().toArray(Metric[]::new);
    }

    private static String part(String moment, MemoryCategory category) {
        return moment + "-" + category.column();
    }

    /** Trains one step and frees everything; bytes by the names of {@link #metrics}. */
    static LinkedHashMap<String, Double> measure(
            ProcessGroup group, TransformerConfig config, int batch, ShardMode mode, double bucketMb) {
        warmUp(group, config, mode);
        try (var profile = MemoryProfile.start(group.device());
                var scope = MemoryScope.open()) {
            MemoryRecord record = record(profile, group, config, batch, mode, bucketMb);
            var model =
                    new ModelMemory(config, batch, DType.FLOAT32, group.device().kind());
            var predicted = new ShardedMemory(model, group.size(), mode.isSharded(), (long) (bucketMb * 1e6));
            return numbers(record, predicted);
        }
    }

    /**
     * What libraries allocate once, such as cuBLAS its workspaces, is there before the record, whichever mode comes
     * first.
     */
    private static void warmUp(ProcessGroup group, TransformerConfig config, ShardMode mode) {
        var tiny = new TransformerConfig(config.form(), 16, 8, 8, 1, 1, 8, config.normalization(), config.attention());
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(tiny, group.device());
                var training = mode.begin(model, group, AdamW.Options.of(1e-3), 1)) {
            step(training, Batches.random(16, 1, 8, group.device(), 0).next());
            training.optimizer().step();
            if (training.shards() != null) training.shards().arrive();
        }
    }

    private static MemoryRecord record(
            MemoryProfile profile,
            ProcessGroup group,
            TransformerConfig config,
            int batch,
            ShardMode mode,
            double bucketMb) {
        TransformerLM model;
        ShardMode.Training training;
        try (var phase = ProfilerRange.of(INITIALIZATION)) {
            model = new TransformerLM(config, group.device());
            training = mode.begin(model, group, AdamW.Options.of(1e-3), bucketMb);
        }
        try (model;
                training) {
            profile.mark(MemoryCategory.PARAMETERS, model.namedParameters());
            var data = Batches.random(config.vocabSize(), batch, config.contextLength(), group.device(), group.rank())
                    .next();
            step(training, data);
            profile.markGradients(model.namedParameters());
            try (var phase = ProfilerRange.of(STEP)) {
                training.optimizer().step();
                if (training.shards() != null) training.shards().arrive();
            }
            Map<String, Tensor> moments =
                    new LinkedHashMap<>(training.optimizer().state());
            moments.keySet().removeIf(name -> name.endsWith(".step"));
            profile.mark(MemoryCategory.OPTIMIZER_STATE, moments);
            return profile.stop();
        }
    }

    private static void step(ShardMode.Training training, Batches.Batch data) {
        try (var scope = MemoryScope.open()) {
            Tensor loss;
            try (var phase = ProfilerRange.of(FORWARD)) {
                loss = Losses.crossEntropy(training.ddp().forward(data.inputs()), data.targets());
            }
            try (var phase = ProfilerRange.of(BACKWARD)) {
                Backward.of(loss).run();
                training.ddp().finishGradientSynchronization();
            }
        }
    }

    private static LinkedHashMap<String, Double> numbers(MemoryRecord record, ShardedMemory predicted) {
        MemoryPhase init = record.phase(INITIALIZATION, 0);
        MemoryPhase step = record.phase(STEP, 0);
        int[] ends = {init.until(), step.from(), step.until()};
        List<MemoryInventory> moments = predicted.moments();
        List<MemoryInventory> peaks = predicted.peaks();
        var numbers = new LinkedHashMap<String, Double>();
        int from = 0;
        for (int i = 0; i < ends.length; i++) {
            String moment = MOMENTS.get(i);
            int last = ends[i] - 1;
            numbers.put(moment, (double) record.bytes(last));
            int peak = record.peakEvent(Math.max(0, from - 1), Math.max(from, last) + 1);
            numbers.put(moment + "-peak", (double) record.bytes(peak));
            putParts(numbers, record, last, moment);
            putParts(numbers, record, peak, moment + "-peak");
            numbers.put(moment + "-predicted", (double) moments.get(i).bytes());
            numbers.put(moment + "-peak-predicted", (double) peaks.get(i).bytes());
            from = ends[i];
        }
        return numbers;
    }

    private static void putParts(Map<String, Double> numbers, MemoryRecord record, int event, String when) {
        record.breakdown(event).forEach((category, bytes) -> numbers.put(part(when, category), (double) bytes));
    }
}
