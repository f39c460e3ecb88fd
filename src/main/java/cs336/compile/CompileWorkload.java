package cs336.compile;

import static cs336.units.UnitFactors.NANOS_PER_MS;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.GradScaler;
import cs336.basics.Losses;
import cs336.basics.TransformerLM;
import cs336.bench.Case;
import cs336.bench.Metric;
import cs336.bench.ModelCase;
import cs336.bench.ModelCases;
import cs336.bench.Pass;
import cs336.bench.Precision;
import cs336.bench.Samples;
import cs336.bench.Stopwatch;
import cs336.bench.Workload;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.MemoryStats;
import cs336.torch.NoGrad;
import cs336.torch.Torch;
import java.util.function.Consumer;
import org.bytedeco.pytorch.Tensor;

/**
 * A workload that times forward passes or training steps in a {@link CompileMode}. The metric {@code first} is the time
 * of the first passes until the compiled one exists.
 */
public final class CompileWorkload implements Workload {
    private static final String TOTAL = "total";
    private static final String FIRST = "first";
    private static final Metric PEAK_MEMORY = Metric.bytes("peak-memory");
    private static final double LEARNING_RATE = 1e-4;
    private static final int FIRST_STEPS = 4; // three without a graph, and the one that records it
    private static final int SEED = 0;

    /** Returns the case of a model, without the setting {@code device}. */
    static Case of(ModelCase c, CompileMode mode, int warmup, int steps) {
        Case plain = ModelCases.of(CompileWorkload.class, c);
        String suffix = mode == CompileMode.PLAIN ? "" : "+" + mode;
        return plain.withImplementation(plain.implementation() + suffix)
                .with("warmup", warmup)
                .with("steps", steps)
                .setting("mode", mode.toString())
                .yields(Metric.ms(FIRST), Metric.ms(TOTAL), PEAK_MEMORY);
    }

    /** @throws IllegalArgumentException if there is no compiled form of the pass */
    static void requireSupported(Pass pass) {
        if (pass != Pass.FORWARD && pass != Pass.STEP) {
            throw new IllegalArgumentException("--pass must be forward or step, not " + pass);
        }
    }

    @Override
    public void run(Case c, Consumer<Samples> record) {
        Device device = Device.parse(c.text("device"));
        var precision = Precision.parse(c.text("dtype"));
        CompileMode mode = CompileMode.parse(c.text("mode"));
        boolean isStep = Pass.parse(c.text("pass")) == Pass.STEP;
        Torch.allowTf32(precision.tf32());
        try (var all = MemoryScope.open();
                var model = new TransformerLM(ModelCases.config(c), device)) {
            var batch = Batches.random(
                            model.config().vocabSize(), c.integer("batch"), c.integer("context"), device, SEED)
                    .next();
            try (RepeatedPass pass = isStep
                    ? new TrainingPass(model, batch, precision, mode)
                    : new ForwardPass(model, batch, precision, mode)) {
                long start = System.nanoTime();
                for (int i = 0; i < FIRST_STEPS; i++) {
                    pass.run();
                }
                device.synchronize();
                record.accept(Samples.once(Metric.ms(FIRST), (System.nanoTime() - start) / NANOS_PER_MS));
                MemoryStats.resetPeak(device);
                Stopwatch.on(device)
                        .warmup(c.integer("warmup"))
                        .steps(c.integer("steps"))
                        .time(TOTAL, pass::run)
                        .samples()
                        .forEach(record);
                record.accept(Samples.once(PEAK_MEMORY, MemoryStats.peak(device)));
            }
        }
    }

    /** A pass over one batch that can be run again and again. */
    private interface RepeatedPass extends AutoCloseable {
        /** Runs the pass without waiting for the GPU. */
        void run();

        @Override
        void close();
    }

    private static final class ForwardPass implements RepeatedPass {
        private final TransformerLM model;
        private final Batches.Batch batch;
        private final Precision precision;
        private final Compiled compiled; // null for the plain pass

        ForwardPass(TransformerLM model, Batches.Batch batch, Precision precision, CompileMode mode) {
            this.model = model;
            this.batch = batch;
            this.precision = precision;
            Compiled graphed = Compiled.of(this::logits).asGraph();
            compiled = switch (mode) {
                case PLAIN -> null;
                case GRAPH -> graphed.withoutFusion();
                case FUSED -> graphed;
            };
        }

        private Tensor[] logits(Tensor... ids) {
            try (var autocast = precision.autocast(model.device())) {
                return new Tensor[] {model.forward(ids[0])};
            }
        }

        @Override
        public void run() {
            try (var scope = MemoryScope.open();
                    var noGrad = NoGrad.open()) {
                if (compiled == null) {
                    logits(batch.inputs());
                } else {
                    compiled.apply(batch.inputs());
                }
            }
        }

        @Override
        public void close() {
            if (compiled != null) {
                compiled.close();
            }
        }
    }

    private static final class TrainingPass implements RepeatedPass {
        private final TransformerLM model;
        private final Batches.Batch batch;
        private final Precision precision;
        private final AdamW optimizer;
        private final GradScaler scaler;
        private final CompiledStep compiled; // null for the plain pass

        TrainingPass(TransformerLM model, Batches.Batch batch, Precision precision, CompileMode mode) {
            this.model = model;
            this.batch = batch;
            this.precision = precision;
            optimizer = new AdamW(model.namedParameters(), AdamWSettings.of(LEARNING_RATE));
            scaler = precision.scaler(model.device());
            compiled = mode == CompileMode.PLAIN ? null : CompiledStep.of(model, optimizer, precision);
            if (mode == CompileMode.FUSED) {
                compiled.fuse();
            }
        }

        @Override
        public void run() {
            try (var scope = MemoryScope.open()) {
                if (compiled != null) {
                    compiled.run(batch.inputs(), batch.targets());
                    return;
                }
                Tensor loss;
                try (var autocast = precision.autocast(model.device())) {
                    loss = Losses.crossEntropy(model.forward(batch.inputs()), batch.targets());
                }
                scaler.scale(loss).backward();
                scaler.step(optimizer);
                scaler.update();
                optimizer.zeroGrad();
            }
        }

        @Override
        public void close() {
            if (compiled != null) {
                compiled.close();
            }
            optimizer.close();
            scaler.close();
        }
    }
}
