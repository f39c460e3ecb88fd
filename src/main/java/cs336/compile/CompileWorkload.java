package cs336.compile;

import static cs336.units.UnitFactors.NANOS_PER_MS;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.TransformerLM;
import cs336.bench.Benchmark;
import cs336.bench.Case;
import cs336.bench.Metric;
import cs336.bench.ModelCase;
import cs336.bench.ModelCases;
import cs336.bench.Pass;
import cs336.bench.Precision;
import cs336.bench.Samples;
import cs336.bench.Stopwatch;
import cs336.bench.Timing;
import cs336.bench.Workload;
import cs336.kernels.runtime.TileSearch;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.MemoryStats;
import cs336.torch.NoGrad;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;

/**
 * A workload that times forward passes or training steps in a {@link CompileMode}. Its metrics: {@code total}, the time
 * of a pass (ms); {@code first}, the total time of the first passes, up to the one that records the CUDA graph (ms);
 * and {@code peak-memory} (bytes).
 */
public final class CompileWorkload implements Workload {
    private static final String TOTAL = "total";
    private static final String FIRST = "first";
    private static final Metric PEAK_MEMORY = Metric.bytes("peak-memory");
    private static final double LEARNING_RATE = 1e-4;
    private static final int FIRST_STEPS = CompiledStep.WARMUP + 1; // the last one records the graph
    private static final int SEED = 0;

    /**
     * Returns the case of a model, without the setting {@code device}.
     *
     * @param rounds the number of times that the warm-up steps and the timed steps are repeated
     */
    static Case of(ModelCase c, CompileMode mode, int warmup, int steps, int rounds) {
        Case plain = ModelCases.of(CompileWorkload.class, c);
        String suffix = mode == CompileMode.PLAIN ? "" : "+" + mode;
        return plain.withImplementation(plain.implementation() + suffix)
                .with("warmup", warmup)
                .with("steps", steps)
                .setting("mode", mode.toString())
                .setting("rounds", rounds)
                .yields(Stream.of(Metric.ms(FIRST), Metric.ms(TOTAL), PEAK_MEMORY)
                        .skip(Turns.areGiven() ? 1 : 0) // the first passes, if other programs compile at the same time
                        .toArray(Metric[]::new));
    }

    /** @throws IllegalArgumentException if there is no compiled form of the pass */
    static void requireSupported(Pass pass) {
        if (pass != Pass.FORWARD && pass != Pass.STEP) {
            throw new IllegalArgumentException("--pass must be forward or step, not " + pass);
        }
    }

    @Override
    public void run(Case c, Consumer<Samples> record) throws Exception {
        Device device = Device.parse(c.text("device"));
        var precision = Precision.parse(c.text("dtype"));
        CompileMode mode = CompileMode.parse(c.text("mode"));
        Torch.allowTf32(precision.tf32());
        TileSearch.enable(mode == CompileMode.SEARCHED);
        try (var all = MemoryScope.open();
                var model = new TransformerLM(ModelCases.config(c), device);
                RepeatedPass pass = mode.isFused() ? fused(model, c) : notFused(model, c, mode)) {
            long start = System.nanoTime();
            for (int i = 0; i < FIRST_STEPS; i++) {
                pass.run().run();
            }
            device.synchronize();
            double firstMs = (System.nanoTime() - start) / NANOS_PER_MS;
            if (!Turns.areGiven()) {
                record.accept(Samples.once(Metric.ms(FIRST), firstMs));
            }
            MemoryStats.resetPeak(device);
            Map<Metric, List<Double>> times = new LinkedHashMap<>();
            for (int round = 0; round < c.integer("rounds"); round++) {
                Turns.await();
                Timing timing = Stopwatch.on(device)
                        .warmup(c.integer("warmup"))
                        .steps(c.integer("steps"))
                        .time(TOTAL, pass.run());
                timing.samples()
                        .forEach(samples -> times.computeIfAbsent(samples.metric(), m -> new ArrayList<>())
                                .addAll(samples.values()));
            }
            times.forEach((metric, values) -> record.accept(new Samples(metric, values)));
            record.accept(Samples.once(PEAK_MEMORY, MemoryStats.peak(device)));
        }
    }

    /** A pass over one batch that can be run again and again. */
    private record RepeatedPass(Runnable run, List<AutoCloseable> resources) implements AutoCloseable {
        @Override
        public void close() throws Exception {
            for (AutoCloseable resource : resources) {
                resource.close();
            }
        }
    }

    private static RepeatedPass notFused(TransformerLM model, Case c, CompileMode mode) {
        Benchmark.Step step = Benchmark.of(model)
                .batch(c.integer("batch"))
                .context(c.integer("context"))
                .precision(Precision.parse(c.text("dtype")))
                .graph(mode == CompileMode.GRAPH)
                .step(Pass.parse(c.text("pass")));
        return new RepeatedPass(step::run, List.of(step));
    }

    private static RepeatedPass fused(TransformerLM model, Case c) {
        var precision = Precision.parse(c.text("dtype"));
        int vocabulary = model.config().vocabSize();
        var batch = Batches.random(vocabulary, c.integer("batch"), c.integer("context"), model.device(), SEED)
                .next();
        if (Pass.parse(c.text("pass")) == Pass.STEP) {
            var optimizer = new AdamW(model.namedParameters(), AdamWSettings.of(LEARNING_RATE));
            CompiledStep step = CompiledStep.of(model, optimizer, precision).fuseKeepingAttention();
            return new RepeatedPass(() -> step.run(batch.inputs(), batch.targets()), List.of(step, optimizer));
        }
        Compiled forward = Compiled.of(ids -> {
                    try (var autocast = precision.autocast(model.device())) {
                        return new Tensor[] {model.forward(ids[0])};
                    }
                })
                .keepAttention()
                .asGraph();
        return new RepeatedPass(
                () -> {
                    try (var scope = MemoryScope.open();
                            var noGrad = NoGrad.open()) {
                        forward.apply(batch.inputs());
                    }
                },
                List.of(forward));
    }
}
