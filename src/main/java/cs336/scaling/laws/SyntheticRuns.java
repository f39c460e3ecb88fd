package cs336.scaling.laws;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/**
 * A generator of synthetic training runs: losses of a known surface plus noise, so that fits can be compared with the
 * true law.
 *
 * @param surface the losses without noise
 * @param noise standard deviation of ln L; 0 for none
 * @param seed seed of the noise
 */
public record SyntheticRuns(LossSurface surface, double noise, long seed) {
    /** The runs in this repository: nine budgets with eight sizes each and noise of 0.2 % of the loss. */
    public static final SyntheticRuns SHIPPED =
            new SyntheticRuns(new LossSurface(1.75, 420, 0.335, 1400, 0.345), 0.002, 336);

    /** The file of {@link #SHIPPED} in this repository. */
    public static final String FILE = "data/isoflops_synthetic.json";

    /** Budgets in FLOP, two per decade. */
    static final double[] BUDGETS = {1e18, 3e18, 1e19, 3e19, 1e20, 3e20, 1e21, 3e21, 1e22};

    private static final int SIZES_PER_DECADE = 8;
    private static final double LEAST_TOKENS_PER_PARAMETER = 2;
    private static final double MOST_TOKENS_PER_PARAMETER = 200;
    private static final double DECIMALS = 1e6;

    /** @throws IllegalArgumentException if the noise is below 0 */
    public SyntheticRuns {
        if (!(noise >= 0)) {
            throw new IllegalArgumentException("noise must be at least 0, not " + noise);
        }
    }

    /** Returns the course's file of runs if it exists in the current folder, else {@link #FILE}. */
    static Path orCourseFile() {
        Path course = Path.of(IsoFlops.COURSE_FILE);
        return Files.exists(course) ? course : Path.of(FILE);
    }

    /** Returns the generator with another seed. */
    public SyntheticRuns seeded(long other) {
        return new SyntheticRuns(surface, noise, other);
    }

    /**
     * Draws the runs. All budgets share a grid of sizes, eight per decade and rounded to three digits; a budget uses
     * the sizes with 2 to 200 tokens per parameter. Losses are rounded to six decimals. The runs are reproducible to
     * the last bit, because {@link StrictMath} and {@link Random} are.
     */
    public IsoFlops draw() {
        var random = new Random(seed);
        List<TrainingRun> runs = new ArrayList<>();
        for (double compute : BUDGETS) {
            for (int step = 0; step < 20 * SIZES_PER_DECADE; step++) {
                long parameters = size(step);
                double tokens = TrainingRun.tokens(compute, parameters);
                double ratio = tokens / parameters;
                if (ratio < LEAST_TOKENS_PER_PARAMETER || ratio > MOST_TOKENS_PER_PARAMETER) {
                    continue;
                }
                double loss = surface.loss(parameters, tokens) * StrictMath.exp(noise * random.nextGaussian());
                runs.add(new TrainingRun(parameters, compute, Math.rint(loss * DECIMALS) / DECIMALS));
            }
        }
        return new IsoFlops(runs);
    }

    /** Returns 10^(step / 8) rounded to three digits. */
    private static long size(int step) {
        double exact = StrictMath.pow(10, (double) step / SIZES_PER_DECADE);
        double unit = StrictMath.pow(10, Math.max(0, step / SIZES_PER_DECADE - 2));
        return (long) (Math.rint(exact / unit) * unit);
    }
}
