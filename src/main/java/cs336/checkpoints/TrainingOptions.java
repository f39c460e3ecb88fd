package cs336.checkpoints;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.CosineSchedule;
import cs336.bench.Precision;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import picocli.CommandLine.Option;

/**
 * The options of training on several processes, in addition to {@link ResumeOptions}: the text and the learning rate.
 */
public final class TrainingOptions {
    private static final int WARMUP_STEPS = 10;

    @Option(
            names = "--text",
            paramLabel = "<file>",
            description = "with --checkpoint: text file that all ranks can read; each byte is a token. Default: random"
                    + " tokens")
    private Path text;

    @Option(
            names = "--lr",
            defaultValue = "1e-3",
            paramLabel = "<rate>",
            description = "with --checkpoint: maximum learning rate, after a linear warm-up of " + WARMUP_STEPS
                    + " steps; cosine decay to a tenth of it at --steps")
    private double learningRate;

    /** Returns the names of these options. */
    public static String[] names() {
        return new String[] {"--text", "--lr"};
    }

    /** Returns the text, or null for random tokens. */
    public Path text() {
        return text;
    }

    /** Returns the maximum learning rate. */
    public double learningRate() {
        return learningRate;
    }

    /**
     * Returns descriptions of the options that a resumed run may change, by name.
     *
     * @param batch sequences per step, of all processes
     * @param schedule the schedule of the learning rate
     * @param clip the norm to which gradients are clipped
     */
    public static Map<String, String> settings(
            Precision precision,
            int contextLength,
            long batch,
            CosineSchedule schedule,
            AdamW.Order order,
            double clip) {
        var settings = new LinkedHashMap<String, String>();
        settings.put("lr", "--lr " + schedule.maxLearningRate());
        settings.put("warmup", "warm-up to step " + schedule.warmupSteps());
        settings.put("decay", "decay to step " + schedule.endStep());
        settings.put("order", "--order " + order);
        settings.put("clip", "--clip " + clip);
        settings.put("dtype", "--dtype " + precision);
        settings.put("context", "--context " + contextLength);
        settings.put("batch", batch + " sequences per step");
        return settings;
    }

    /**
     * Returns a schedule with {@value #WARMUP_STEPS} steps of linear warm-up to this learning rate, and cosine decay to
     * a tenth of it at step {@code steps}.
     *
     * @throws IllegalArgumentException if the learning rate is out of range; the message names {@code --lr}
     */
    public static CosineSchedule schedule(double learningRate, int steps) {
        return schedule(learningRate, WARMUP_STEPS, steps);
    }

    /**
     * Returns a schedule with linear warm-up to this learning rate, and cosine decay to a tenth of it.
     *
     * @param decaySteps the step at which the decay ends; if it is not above {@code warmupSteps}, the decay ends one
     *     step after the warm-up
     * @throws IllegalArgumentException if the learning rate is out of range; the message names {@code --lr}
     */
    public static CosineSchedule schedule(double learningRate, int warmupSteps, int decaySteps) {
        if (!(learningRate >= 0 && Double.isFinite(learningRate))) {
            throw new IllegalArgumentException("--lr must be finite and at least 0, not " + learningRate);
        }
        try {
            AdamWSettings.of(learningRate);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("--lr " + learningRate + " is too large: " + e.getMessage(), e);
        }
        return new CosineSchedule(learningRate, learningRate / 10, warmupSteps, Math.max(decaySteps, warmupSteps + 1));
    }
}
