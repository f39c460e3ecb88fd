package cs336.compile;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.GradScaler;
import cs336.basics.GradientClipping;
import cs336.basics.Losses;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Precision;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.List;
import java.util.stream.DoubleStream;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;

/** The same training in a plain loop, and in a {@link CompiledStep} with and without fusion. */
final class TrainingRuns {
    private static final int BATCH = 2;

    private TrainingRuns() {}

    /**
     * The loss of each step, and all parameters afterwards.
     *
     * @param skipped number of steps that changed no parameter
     */
    record LossesAndParameters(double[] losses, double[] parameters, int skipped) {}

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
        return train(config, device, precision, maxNorm, loop, contexts, 1);
    }

    /**
     * Trains like {@link #train(TransformerConfig, Device, Precision, double, Loop, List)}.
     *
     * @param loudness multiplies the initial weights of the LM head, and so the gradients before it
     */
    static LossesAndParameters train(
            TransformerConfig config,
            Device device,
            Precision precision,
            double maxNorm,
            Loop loop,
            List<Integer> contexts,
            double loudness) {
        Torch.seed(7);
        Torch.allowTf32(precision.tf32());
        try (var outer = MemoryScope.open();
                var model = new TransformerLM(config, device);
                var optimizer = new AdamW(model.namedParameters(), AdamWSettings.of(1e-3));
                var scaler = precision.scaler(device);
                var step = CompiledStep.of(model, optimizer, precision).clip(maxNorm)) {
            if (loop == Loop.FUSED) {
                step.fuse();
            }
            List<Tensor> all = model.parameters();
            Tensor head = all.get(all.size() - 1);
            try (var noGrad = NoGrad.open()) {
                head.mul_(new Scalar(loudness));
            }
            int skipped = 0;
            double[] losses = new double[contexts.size()];
            for (int i = 0; i < losses.length; i++) {
                optimizer.setLearningRate(1e-3 / (1 + i % 5));
                try (var scope = MemoryScope.open()) {
                    Tensor before = head.detach().clone();
                    var batch = Batches.random(config.vocabSize(), BATCH, contexts.get(i), device, i)
                            .next();
                    Tensor loss = loop == Loop.PLAIN
                            ? plainStep(model, optimizer, scaler, precision, maxNorm, batch)
                            : step.run(batch.inputs(), batch.targets());
                    losses[i] = loss.item_double();
                    skipped += before.equal(head) ? 1 : 0;
                }
            }
            double[] parameters = model.parameters().stream()
                    .flatMapToDouble(p -> DoubleStream.of(Tensors.toDoubles(p)))
                    .toArray();
            return new LossesAndParameters(losses, parameters, skipped);
        }
    }

    private static Tensor plainStep(
            TransformerLM model,
            AdamW optimizer,
            GradScaler scaler,
            Precision precision,
            double maxNorm,
            Batches.Batch batch) {
        Tensor loss;
        try (var autocast = precision.autocast(model.device())) {
            loss = Losses.crossEntropy(model.forward(batch.inputs()), batch.targets());
        }
        scaler.scale(loss).backward();
        scaler.unscale(optimizer);
        GradientClipping.clipByGlobalNorm(model.parameters(), maxNorm);
        scaler.step(optimizer);
        scaler.update();
        optimizer.zeroGrad();
        return loss;
    }
}
