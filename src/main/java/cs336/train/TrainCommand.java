package cs336.train;

import static cs336.units.UnitFactors.NANOS_PER_MS;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.Checkpoint;
import cs336.basics.CosineSchedule;
import cs336.basics.TransformerLM;
import cs336.bench.ArgumentCheck;
import cs336.bench.LabCommand;
import cs336.bench.ModelOptions;
import cs336.bench.Precision;
import cs336.bench.TextFile;
import cs336.compile.CompiledStep;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** Trains a language model on the bytes of a text file, with checkpoints in the safetensors format. */
@Command(
        name = "train",
        description = {
            "Trains a language model on the bytes of a text file: AdamW, linear warm-up and cosine decay of the learning"
                    + " rate, gradient clipping. On a GPU the forward and backward passes run as a CUDA graph.",
            "A checkpoint is a safetensors file with the parameters, the optimizer state and the step; --resume"
                    + " continues from it."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  A tiny model, in seconds, on any laptop:",
            "    cs336 train --text README.md --d-model 64 --layers 2 --heads 2 --vocab 256 --context 64 --steps 100",
            "",
            "Exit codes: 0 trained, 1 a file cannot be read or written, 2 invalid arguments."
        })
public final class TrainCommand extends LabCommand {
    private static final int BYTES = 256;
    private static final String STEP = "step";

    @Mixin
    private final ModelOptions models = new ModelOptions();

    @Option(names = "--text", required = true, paramLabel = "<file>", description = "text file; each byte is a token")
    private Path text;

    @Option(
            names = "--steps",
            defaultValue = "1000",
            paramLabel = "<n>",
            description = "number of training steps, including those before --resume")
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
            defaultValue = "DECAY_AFTER",
            paramLabel = "<order>",
            description = "AdamW's order of update and weight decay: ${COMPLETION-CANDIDATES}")
    private AdamW.Order order;

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

    @Option(names = "--device", defaultValue = "best", paramLabel = "<device>", description = "best, cpu, cuda, cuda:N")
    private String device;

    @Option(
            names = "--log-every",
            defaultValue = "10",
            paramLabel = "<n>",
            description = "steps between two lines of output")
    private int logEvery;

    @Option(
            names = "--checkpoint",
            paramLabel = "<file>",
            description = "safetensors file for checkpoints. Default: none are saved")
    private Path checkpoint;

    @Option(
            names = "--checkpoint-every",
            defaultValue = "100",
            paramLabel = "<n>",
            description = "steps between two checkpoints; the last step always saves one")
    private int checkpointEvery;

    @Option(
            names = "--resume",
            description =
                    "continue from the file of --checkpoint if it exists; fp16 restarts with the initial loss scale")
    private boolean resume;

    /** The checked options. */
    private record TrainingSetup(
            ModelOptions.Model model, Precision precision, Device device, CosineSchedule schedule, int[] tokens) {}

    @Override
    public Integer call() throws IOException {
        TrainingSetup setup = checked(this::setup);
        Torch.seed(seed);
        try (var model = new TransformerLM(setup.model.config(), setup.device);
                var optimizer = new AdamW(
                        model.namedParameters(), AdamWSettings.of(learningRate).withOrder(order));
                var step = CompiledStep.of(model, optimizer, setup.precision).clip(clip)) {
            int first = 0;
            if (resume && Files.exists(checkpoint)) {
                first = checked(() -> load(model, optimizer));
            }
            if (first >= steps) {
                out().printf("%s was saved after step %d: nothing is left of --steps %d%n", checkpoint, first, steps);
            }
            train(setup, model, optimizer, step, first);
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
        if (!(learningRate >= 0 && Double.isFinite(learningRate))) {
            throw new IllegalArgumentException("--lr must be finite and at least 0, not " + learningRate);
        }
        if (decaySteps != null) {
            ArgumentCheck.atLeast("--decay-steps", 1, decaySteps);
        }
        if (warmup == Integer.MAX_VALUE) {
            throw new IllegalArgumentException("--warmup must be below " + Integer.MAX_VALUE);
        }
        ArgumentCheck.atLeast("--log-every", 1, logEvery);
        ArgumentCheck.atLeast("--checkpoint-every", 1, checkpointEvery);
        if (!(clip > 0)) {
            throw new IllegalArgumentException("--clip must be positive, not " + clip);
        }
        if (resume && checkpoint == null) {
            throw new IllegalArgumentException("--resume needs --checkpoint <file>");
        }
        if (model.config().vocabSize() < BYTES) {
            throw new IllegalArgumentException("--vocab must be at least " + BYTES
                    + ", one for each value of a byte, not " + model.config().vocabSize());
        }
        requireWritable();
        TextFile.requireFile(text);
        byte[] bytes = Files.readAllBytes(text);
        int[] tokens = new int[bytes.length];
        for (int i = 0; i < bytes.length; i++) {
            tokens[i] = Byte.toUnsignedInt(bytes[i]);
        }
        Precision precision = Precision.parse(dtype);
        var schedule = new CosineSchedule(
                learningRate,
                learningRate / 10,
                ArgumentCheck.atLeast("--warmup", 0, warmup),
                Math.max(decaySteps == null ? steps : decaySteps, warmup + 1));
        AdamWSettings.of(learningRate); // checks the rate
        Device where = Device.parse(device);
        batches(model, tokens, where); // checks the length of the text
        return new TrainingSetup(model, precision, where, schedule, tokens);
    }

    private void requireWritable() {
        if (checkpoint == null) {
            return;
        }
        Path folder = checkpoint.toAbsolutePath().getParent();
        if (folder == null
                || !Files.isDirectory(folder)
                || !Files.isWritable(folder)
                || Files.isDirectory(checkpoint)) {
            throw new IllegalArgumentException("--checkpoint must be a file in a writable folder, not " + checkpoint);
        }
    }

    private Batches batches(ModelOptions.Model model, int[] tokens, Device where) {
        return Batches.fromTokens(tokens, model.batch(), model.config().contextLength(), where, seed);
    }

    /** Loads the checkpoint and returns the number of steps that were trained before it was saved. */
    private int load(TransformerLM model, AdamW optimizer) throws IOException {
        Map<String, String> metadata = Checkpoint.load(checkpoint, model.namedParameters(), optimizer);
        String done = metadata.get(STEP);
        if (done == null || !done.matches("\\d{1,9}")) {
            throw new IllegalArgumentException(
                    checkpoint + " has no number of trained steps in its metadata entry '" + STEP + "'");
        }
        return Integer.parseInt(done);
    }

    private void train(TrainingSetup setup, TransformerLM model, AdamW optimizer, CompiledStep step, int first)
            throws IOException {
        Batches batches = batches(setup.model, setup.tokens, setup.device);
        for (int i = 0; i < first; i++) {
            try (var scope = MemoryScope.open()) {
                batches.next(); // skips the batches of the steps before the checkpoint
            }
        }
        long intervalStart = System.nanoTime();
        int intervalFirstStep = first;
        for (int i = first; i < steps; i++) {
            optimizer.setLearningRate(setup.schedule.at(i));
            try (var scope = MemoryScope.open()) {
                Batches.Batch batch = batches.next();
                Tensor loss = step.run(batch.inputs(), batch.targets());
                boolean last = i + 1 == steps;
                if ((i + 1) % logEvery == 0 || last) {
                    double value = loss.item_double(); // waits for the GPU
                    double ms = (System.nanoTime() - intervalStart) / NANOS_PER_MS / (i + 1 - intervalFirstStep);
                    out().printf(
                                    "step %6d   loss %.4f   learning rate %.2e   %.1f ms per step%n",
                                    i + 1, value, optimizer.learningRate(), ms);
                    out().flush();
                    intervalStart = System.nanoTime();
                    intervalFirstStep = i + 1;
                }
                if (checkpoint != null && ((i + 1) % checkpointEvery == 0 || last)) {
                    Checkpoint.save(
                            checkpoint, model.namedParameters(), optimizer, Map.of(STEP, String.valueOf(i + 1)));
                }
            }
        }
    }
}
