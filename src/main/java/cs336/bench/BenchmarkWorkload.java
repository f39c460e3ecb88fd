package cs336.bench;

import cs336.basics.Form;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.torch.Device;
import java.util.function.Consumer;

/** A {@link Benchmark} as a case of a sweep. */
public final class BenchmarkWorkload implements Workload {
    /** The case of a model under its name in the table of sizes; {@code device} is still to be set. */
    static Case of(
            String label, TransformerConfig config, int batch, Precision precision, Pass pass, int warmup, int steps) {
        return Case.of(BenchmarkWorkload.class, implementation(config))
                .with("size", label)
                .with("year", config.form().year())
                .with("batch", batch)
                .with("context", config.contextLength())
                .with("dtype", precision)
                .with("pass", pass)
                .with("warmup", warmup)
                .with("steps", steps)
                .setting("d_model", config.dModel())
                .setting("d_ff", config.dFf())
                .setting("layers", config.numLayers())
                .setting("heads", config.numHeads())
                .setting("vocab", config.vocabSize())
                .setting("normalization", config.normalization())
                .setting("attention", config.attention())
                .yields(Benchmark.metrics(pass).toArray(Metric[]::new));
    }

    /** {@code plain} for RMSNorm and attention from plain operations; otherwise what takes their place. */
    private static String implementation(TransformerConfig config) {
        boolean plainNorm = config.normalization().equals("rmsnorm");
        boolean plainAttention = config.attention().equals("plain");
        if (plainNorm) {
            return config.attention();
        }
        return plainAttention ? config.normalization() : config.normalization() + "+" + config.attention();
    }

    @Override
    public void run(Case c, Consumer<Samples> record) {
        var config = new TransformerConfig(
                Form.ofYear(c.integer("year")),
                c.integer("vocab"),
                c.integer("context"),
                c.integer("d_model"),
                c.integer("layers"),
                c.integer("heads"),
                c.integer("d_ff"),
                c.text("normalization"),
                c.text("attention"));
        try (var model = new TransformerLM(config, Device.parse(c.text("device")))) {
            Benchmark.of(model)
                    .batch(c.integer("batch"))
                    .context(c.integer("context"))
                    .precision(Precision.parse(c.text("dtype")))
                    .warmup(c.integer("warmup"))
                    .steps(c.integer("steps"))
                    .run(Pass.parse(c.text("pass")), record);
        }
    }
}
