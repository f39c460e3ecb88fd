package cs336.train;

import static cs336.units.UnitFactors.NANOS_PER_MS;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.Checkpoint;
import cs336.basics.CosineSchedule;
import cs336.basics.GradScaler;
import cs336.basics.TransformerLM;
import cs336.bench.ArgumentCheck;
import cs336.bench.LabCommand;
import cs336.bench.ModelCase;
import cs336.bench.ModelOptions;
import cs336.bench.Precision;
import cs336.checkpoints.CheckpointFolder;
import cs336.checkpoints.CheckpointSettings;
import cs336.checkpoints.ResumeOptions;
import cs336.checkpoints.TextTokens;
import cs336.checkpoints.TrainingOptions;
import cs336.checkpoints.TrainingProgress;
import cs336.compile.CompiledStep;
import cs336.safetensors.Safetensors;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import cs336.units.HostLoad;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The command {@code train}: trains a language model on the bytes of a text file, with safetensors checkpoints. */
@Command(
        name = "train",
        description = {
            "Trains a language model on the bytes of a text file, in one process: AdamW, linear warm-up and cosine decay of the learning"
                    + " rate, gradient clipping. On a GPU the forward and backward passes run as a CUDA graph.",
            "A checkpoint is a safetensors file with the parameters, the optimizer state, the loss scale, and the"
                    + " position in the data. On the CPU a resumed run equals an uninterrupted one bit for bit."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  A tiny model, in seconds, on any laptop:",
            "    ./cs336 train --text README.md --d-model 64 --layers 2 --heads 2 --vocab 256 --context 64 --steps 100",
            "",
            "Exit codes: 0 trained, 1 a file cannot be read or written, 2 invalid arguments."
        })
public final class TrainCommand extends LabCommand {
    @Mixin
    private final ModelOptions models = new ModelOptions();

    @Option(names = "--text", required = true, paramLabel = "<file>", description = "text file; each byte is a token")
    private Path text;

    @Option(
            names = "--steps",
            defaultValue = "1000",
            paramLabel = "<n>",
            description = "total number of training steps, including those before a resumed checkpoint")
    private int steps;

    @Option(
            names = "--dtype",
            defaultValue = "fp32",
            paramLabel = "<dtype>",
            description = "fp32, tf32, bf16 (autocast) or fp16 (autocast and loss scaling)")
    private String dtype;

    @Option(
            names = "--lr",
            defaultValue = "1e-3",
            paramLabel = "<rate>",
            description = "maximum learning rate, after the warm-up")
    private double learningRate;

    @Option(
            names = "--warmup",
            defaultValue = "10",
            paramLabel = "<n>",
            description = "steps in which the learning rate rises linearly from 0 to --lr")
    private int warmup;

    @Option(
            names = "--decay-steps",
            paramLabel = "<n>",
            description = "step at which the cosine decay ends, at a tenth of --lr. Default: --steps")
    private Integer decaySteps;

    @Option(
            names = "--order",
            defaultValue = "decay-after",
            paramLabel = "<order>",
            description =
                    "order of AdamW's update and weight decay: decay-after (course 2024 and 2025), decay-before (course"
                            + " 2026), torch (as in torch.optim.AdamW)")
    private String order;

    @Option(
            names = "--clip",
            defaultValue = "1.0",
            paramLabel = "<norm>",
            description = "global L2 norm to which gradients are clipped")
    private double clip;

    @Option(
            names = "--seed",
            defaultValue = "0",
            paramLabel = "<n>",
            description = "seed of the initial parameters and of the batches")
    private long seed;

    @Option(
            names = "--device",
            defaultValue = "best",
            paramLabel = "<device>",
            description = "best (a GPU if there is one, otherwise the CPU), cpu, cuda, or cuda:N (GPU number N)")
    private String device;

    @Option(
            names = "--log-every",
            defaultValue = "10",
            paramLabel = "<n>",
            description = "steps between two lines of output")
    private int logEvery;

    @Mixin
    private final ResumeOptions checkpoints = new ResumeOptions();

    /** The checked options. */
    private record TrainingSetup(
            ModelOptions.Model model,
            Precision precision,
            AdamW.Order order,
            Device device,
            CosineSchedule schedule,
            TextTokens text,
            CheckpointSettings checkpoints) {}

    @Override
    public Integer call() throws IOException {
        TrainingSetup setup = checked(this::setup);
        Torch.seed(seed);
        try (var model = new TransformerLM(setup.model.config(), setup.device);
                var optimizer = new AdamW(
                        model.namedParameters(), AdamWSettings.of(learningRate).withOrder(setup.order));
                var step = CompiledStep.of(model, optimizer, setup.precision).clip(clip);
                var folder =
                        setup.checkpoints == null ? null : CheckpointFolder.open(Path.of(setup.checkpoints.folder()))) {
            Map<String, Tensor> tensors = new LinkedHashMap<>(model.stateDict());
            tensors.putAll(step.scalerState());
            var training = new Training(setup, tensors, optimizer, step, folder);
            training.run(checked(training::resume));
        }
        return 0;
    }

    private TrainingSetup setup() throws IOException {
        List<ModelOptions.Model> chosen = models.models();
        if (chosen.size() != 1) {
            throw new IllegalArgumentException(
                    "--size, --context, --normalization and --attention must select one model, not " + chosen.size());
        }
        ModelOptions.Model model = chosen.get(0);
        ArgumentCheck.atLeast("--steps", 1, steps);
        if (decaySteps != null) {
            ArgumentCheck.atLeast("--decay-steps", 1, decaySteps);
        }
        if (warmup == Integer.MAX_VALUE) {
            throw new IllegalArgumentException("--warmup must be below " + Integer.MAX_VALUE);
        }
        if (decaySteps != null && decaySteps <= warmup) {
            throw new IllegalArgumentException(
                    "--decay-steps must be above --warmup " + warmup + ", not " + decaySteps);
        }
        ArgumentCheck.atLeast("--log-every", 1, logEvery);
        if (!(clip > 0)) {
            throw new IllegalArgumentException("--clip must be positive, not " + clip);
        }
        TextTokens tokens = TextTokens.read(text, model.config());
        Precision precision = Precision.parse(dtype);
        AdamW.Order updates = ArgumentCheck.oneOf("order", order, List.of(AdamW.Order.values()));
        ArgumentCheck.atLeast("--warmup", 0, warmup);
        CosineSchedule schedule =
                TrainingOptions.schedule(learningRate, warmup, decaySteps == null ? steps : decaySteps);
        Device where = Device.parse(device);
        ModelCase.requireTrainable(model, where);
        return new TrainingSetup(model, precision, updates, where, schedule, tokens, checkpoints.settings(false));
    }

    private Batches batches(ModelOptions.Model model, int[] tokens, Device where) {
        return Batches.fromTokens(tokens, model.batch(), model.config().contextLength(), where, seed);
    }

    /** The objects of one training run. */
    private final class Training {
        private final TrainingSetup setup;
        private final Map<String, Tensor> tensors;
        private final AdamW optimizer;
        private final CompiledStep step;
        private final CheckpointFolder folder;

        /**
         * @param tensors the parameters and the state of the loss scaling
         * @param folder null to save no checkpoints
         */
        Training(
                TrainingSetup setup,
                Map<String, Tensor> tensors,
                AdamW optimizer,
                CompiledStep step,
                CheckpointFolder folder) {
            this.setup = setup;
            this.tensors = tensors;
            this.optimizer = optimizer;
            this.step = step;
            this.folder = folder;
        }

        /** Loads the last checkpoint, if the run is to be resumed and there is one, and returns its position. */
        TrainingProgress resume() throws IOException {
            Path file = folder != null && setup.checkpoints.resume()
                    ? folder.latest(line -> System.err.println("cs336: " + line))
                    : null;
            if (file == null) {
                return TrainingProgress.START;
            }
            requireSameScaling(file);
            Map<String, String> metadata = Checkpoint.load(file, tensors, optimizer);
            step.requireValidScale(file);
            TrainingProgress progress =
                    TrainingProgress.of(file, metadata, setup.model.config().numHeads(), setup.model.batch());
            progress.restoreRandomState(file, 0, setup.device);
            if (progress.steps() < steps) {
                progress.changes(file, data(), settings()).forEach(line -> System.err.println("cs336: " + line));
            } else {
                out().printf(
                                "%s: no steps left: the last checkpoint is of step %,d, and --steps is %d%n",
                                setup.checkpoints.folder(), progress.steps(), steps);
            }
            return progress;
        }

        /** Checks that the checkpoint has the state of loss scaling if this run has it, and only then. */
        private void requireSameScaling(Path file) throws IOException {
            try (Safetensors saved = Safetensors.open(file)) {
                boolean isScaled = GradScaler.isSavedIn(saved.entries().keySet());
                if (isScaled == step.scalerState().isEmpty()) {
                    throw new IllegalArgumentException(file
                            + (isScaled
                                    ? " has the loss scale of a run with --dtype fp16, which --dtype " + dtype
                                            + " does not use"
                                    : " has no loss scale, which --dtype fp16 needs"));
                }
            }
        }

        private String data() {
            return setup.text.description() + ", seed " + seed;
        }

        private Map<String, String> settings() {
            return TrainingOptions.settings(
                    setup.precision,
                    setup.model.config().contextLength(),
                    setup.model.batch(),
                    setup.schedule,
                    setup.order,
                    clip);
        }

        void run(TrainingProgress from) throws IOException {
            if (from.steps() >= steps) {
                return;
            }
            Batches batches = batches(setup.model, setup.text.tokens(), setup.device);
            batches.skip(from.sequences());
            HostLoad.check();
            long intervalStart = System.nanoTime();
            long intervalFirstStep = from.steps();
            long sequences = from.sequences();
            for (int i = Math.toIntExact(from.steps()); i < steps; i++) {
                optimizer.setLearningRate(setup.schedule.at(i));
                try (var scope = MemoryScope.open()) {
                    Batches.Batch batch = batches.next();
                    sequences += setup.model.batch();
                    Tensor loss = step.run(batch.inputs(), batch.targets());
                    if ((i + 1) % logEvery == 0 || i + 1 == steps) {
                        double value = loss.item_double(); // waits for the GPU
                        double ms = (System.nanoTime() - intervalStart) / NANOS_PER_MS / (i + 1 - intervalFirstStep);
                        out().printf(
                                        "step %,7d   loss %.4f   learning rate %.2e   %,.1f ms per step%n",
                                        i + 1, value, optimizer.learningRate(), ms);
                        out().flush();
                        intervalStart = System.nanoTime();
                        intervalFirstStep = i + 1;
                    }
                    if (folder != null && setup.checkpoints.follows(i + 1, steps)) {
                        var progress = new TrainingProgress(
                                i + 1,
                                sequences,
                                setup.model.config().numHeads(),
                                data(),
                                settings(),
                                List.of(Torch.randomState(setup.device)));
                        folder.save(progress, tensors, optimizer.kind(), optimizer.state());
                    }
                }
            }
        }
    }
}
