package cs336.compile;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.GradientClipping;
import cs336.basics.Losses;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Precision;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.List;
import java.util.stream.DoubleStream;
import org.bytedeco.pytorch.Tensor;

/** The same training in a plain loop, and in a {@link CompiledStep} with and without fusion. */
final class TrainingRuns {
    private static final int BATCH = 2;

    private TrainingRuns() {}

    /** The loss of each step, and all parameters afterwards. */
    record LossesAndParameters(double[] losses, double[] parameters) {}

    enum Loop {
        PLAIN,
        GRAPHED,
        FUSED
    }

    /** Trains on new random tokens and with a new learning rate in each step. */
    static LossesAndParameters train(
            TransformerConfig config,
            Device device,
            Precision precision,
            double maxNorm,
            Loop loop,
            List<Integer> contexts) {
        Torch.seed(7);
        Torch.allowTf32(precision.tf32());
        try (var all = MemoryScope.open();
                var model = new TransformerLM(config, device);
                var optimizer = new AdamW(model.namedParameters(), AdamWSettings.of(1e-3));
                var scaler = precision.scaler(device);
                var step = CompiledStep.of(model, optimizer, precision).clip(maxNorm)) {
            if (loop == Loop.FUSED) {
                step.fuse();
            }
            double[] losses = new double[contexts.size()];
            for (int i = 0; i < losses.length; i++) {
                optimizer.setLearningRate(1e-3 / (1 + i % 5));
                try (var scope = MemoryScope.open()) {
                    var batch = Batches.random(config.vocabSize(), BATCH, contexts.get(i), device, i)
                            .next();
                    if (loop != Loop.PLAIN) {
                        losses[i] = step.run(batch.inputs(), batch.targets()).item_double();
                        continue;
                    }
                    Tensor loss;
                    try (var autocast = precision.autocast(device)) {
                        loss = Losses.crossEntropy(model.forward(batch.inputs()), batch.targets());
                    }
                    losses[i] = loss.item_double();
                    scaler.scale(loss).backward();
                    scaler.unscale(optimizer);
                    GradientClipping.clipByGlobalNorm(model.parameters(), maxNorm);
                    scaler.step(optimizer);
                    scaler.update();
                    optimizer.zeroGrad();
                }
            }
            double[] parameters = model.parameters().stream()
                    .flatMapToDouble(p -> DoubleStream.of(Tensors.toDoubles(p)))
                    .toArray();
            return new LossesAndParameters(losses, parameters);
        }
    }
}
