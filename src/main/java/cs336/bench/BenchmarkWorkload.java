package cs336.bench;

import cs336.basics.TransformerLM;
import cs336.torch.Device;
import java.util.function.Consumer;

/** A workload that runs a {@link Benchmark}. */
public final class BenchmarkWorkload implements Workload {
    /**
     * Returns the case of a model, without the setting {@code device}. With a CUDA graph the name of the implementation
     * ends with {@code +graph}.
     */
    static Case of(ModelCase c, int warmup, int steps, boolean graph) {
        Case plain = ModelCases.of(BenchmarkWorkload.class, c);
        return (graph ? plain.withImplementation(plain.implementation() + "+graph") : plain)
                .with("warmup", warmup)
                .with("steps", steps)
                .setting("graph", graph)
                .yields(Benchmark.metrics(c.pass(), graph).toArray(Metric[]::new));
    }

    @Override
    public void run(Case c, Consumer<Samples> record) {
        try (var model = new TransformerLM(ModelCases.config(c), Device.parse(c.text("device")))) {
            Benchmark.of(model)
                    .batch(c.integer("batch"))
                    .context(c.integer("context"))
                    .precision(Precision.parse(c.text("dtype")))
                    .warmup(c.integer("warmup"))
                    .steps(c.integer("steps"))
                    .graph(Boolean.parseBoolean(c.text("graph")))
                    .run(Pass.parse(c.text("pass")), record);
        }
    }
}
