package cs336.profile.memory;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.Losses;
import cs336.basics.Optimizer;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.ArgumentCheck;
import cs336.bench.Pass;
import cs336.bench.Precision;
import cs336.torch.Backward;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.ProfilerRange;
import cs336.torch.Torch;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import org.bytedeco.pytorch.Tensor;

/**
 * A recorder of the memory of a language model: its construction and two runs of a pass on one batch of random tokens.
 *
 * <pre>{@code
 * MemoryRecord record = PassMemory.of(ModelSize.SMALL.config(), Device.best()).batch(4).record(Pass.STEP);
 * }</pre>
 *
 * <p>The phases of a run are {@code forward}, which includes the loss except for {@link Pass#FORWARD}, {@code backward}
 * and {@code optimizer}. Gradients are zeroed at the end of a run. AdamW allocates its moments at the end of the first
 * run, so the steady-state peak is the peak of the second run.
 */
public final class PassMemory {
    private static final int RUNS = 2;

    /** Name of the phase of the forward pass. */
    static final String FORWARD = "forward";

    private static final String BACKWARD = "backward";

    private static final double LEARNING_RATE = 1e-3;
    private static final long SEED = 0;

    private final TransformerConfig config;
    private final Device device;
    private int batch = 4;
    private Precision precision = Precision.FP32;

    private PassMemory(TransformerConfig config, Device device) {
        this.config = config;
        this.device = device;
    }

    /** Returns a recorder for this model in fp32, with batches of 4 sequences of the full context length. */
    public static PassMemory of(TransformerConfig config, Device device) {
        return new PassMemory(config, device);
    }

    /** Sets the batch size in sequences, at least 1. */
    public PassMemory batch(int sequences) {
        batch = ArgumentCheck.atLeast("batch", 1, sequences);
        return this;
    }

    /** Sets the precision of the computation; parameters stay fp32. */
    public PassMemory precision(Precision precision) {
        this.precision = Objects.requireNonNull(precision, "precision must not be null");
        return this;
    }

    /**
     * Builds the model, runs the pass twice, frees everything, and returns the recording. Meanwhile TF32 is allowed or
     * forbidden for the whole process, as the precision says.
     *
     * @throws IllegalStateException if another memory recording is running, or PyTorch's profiler runs on this thread
     */
    public MemoryRecord record(Pass pass) {
        try (var tf32 = Torch.tf32(precision.tf32());
                var memory = MemoryProfile.start(device);
                var scope = MemoryScope.open();
                var model = new TransformerLM(config, device);
                var optimizer = new AdamW(model.namedParameters(), AdamWSettings.of(LEARNING_RATE))) {
            memory.mark(MemoryCategory.PARAMETERS, model.namedParameters());
            var data = Batches.random(config.vocabSize(), batch, config.contextLength(), device, SEED)
                    .next();
            for (int run = 0; run < RUNS; run++) {
                run(pass, memory, model, optimizer, data);
            }
            return memory.stop();
        }
    }

    private void run(Pass pass, MemoryProfile memory, TransformerLM model, Optimizer optimizer, Batches.Batch data) {
        if (pass == Pass.FORWARD) {
            try (var phase = ProfilerRange.of(FORWARD);
                    var scope = MemoryScope.open();
                    var noGrad = NoGrad.open();
                    var autocast = precision.autocast(device)) {
                model.forward(data.inputs());
            }
            return;
        }
        try (var scope = MemoryScope.open()) {
            Tensor loss = loss(model, data);
            if (pass == Pass.FORWARD_GRAPH) {
                return;
            }
            try (var phase = ProfilerRange.of(BACKWARD)) {
                // On this thread, because the recording's callbacks must not nest in Java code on a thread of the
                // autograd engine: recomputed activations, for example.
                Backward.of(loss).run();
            }
        }
        memory.markGradients(model.namedParameters());
        if (pass == Pass.STEP) {
            optimizer.step(); // opens the range "optimizer"
            memory.mark(MemoryCategory.OPTIMIZER_STATE, moments(optimizer));
        }
        optimizer.zeroGrad();
    }

    private Tensor loss(TransformerLM model, Batches.Batch data) {
        try (var phase = ProfilerRange.of(FORWARD);
                var autocast = precision.autocast(device)) {
            return Losses.crossEntropy(model.forward(data.inputs()), data.targets());
        }
    }

    /**
     * Returns the optimizer state that is stored on the device: without the step counts, which are created on request.
     */
    private static Map<String, Tensor> moments(Optimizer optimizer) {
        var moments = new LinkedHashMap<>(optimizer.state());
        moments.keySet().removeIf(name -> name.endsWith(".step"));
        return moments;
    }
}
