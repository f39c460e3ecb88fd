package cs336.scaling.laws;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/**
 * Training runs that nobody paid for: losses of a known surface with noise on them, so that what a method finds can be
 * held against what is true.
 *
 * @param surface the losses without noise
 * @param noise standard deviation of ln L; 0 for none
 * @param seed of the noise
 */
public record SyntheticRuns(LossSurface surface, double noise, long seed) {
    /** The runs of this repository: nine budgets, eight sizes each, noise of 0.2 % of the loss. */
    public static final SyntheticRuns SHIPPED =
            new SyntheticRuns(new LossSurface(1.75, 420, 0.335, 1400, 0.345), 0.002, 336);

    /** 10¹⁸ to 10²² FLOP, two a decade. */
    static final double[] BUDGETS = {1e18, 3e18, 1e19, 3e19, 1e20, 3e20, 1e21, 3e21, 1e22};

    private static final int SIZES_A_DECADE = 8;
    private static final double LEAST_TOKENS_A_PARAMETER = 2;
    private static final double MOST_TOKENS_A_PARAMETER = 200;
    private static final double DECIMALS = 1e6;

    /** @throws IllegalArgumentException for negative noise */
    public SyntheticRuns {
        if (!(noise >= 0)) throw new IllegalArgumentException("noise must be at least 0, not " + noise);
    }

    /** The same with the noise of another seed. */
    public SyntheticRuns seeded(long other) {
        return new SyntheticRuns(surface, noise, other);
    }

    /**
     * Draws the runs. Sizes are those of one ladder for all budgets, eight a decade and rounded to three digits; each
     * budget takes those that get 2 to 200 tokens a parameter. Losses are rounded to six decimals. Every step is
     * defined to the last bit (StrictMath, {@link Random}), so that they are the same everywhere.
     */
    public IsoFlops draw() {
        var random = new Random(seed);
        List<TrainingRun> runs = new ArrayList<>();
        for (double compute : BUDGETS) {
            for (int rung = 0; rung < 20 * SIZES_A_DECADE; rung++) {
                long parameters = size(rung);
                double tokens = TrainingRun.tokens(compute, parameters);
                double ratio = tokens / parameters;
                if (ratio < LEAST_TOKENS_A_PARAMETER || ratio > MOST_TOKENS_A_PARAMETER) continue;
                double loss = surface.loss(parameters, tokens) * StrictMath.exp(noise * random.nextGaussian());
                runs.add(new TrainingRun(parameters, compute, Math.rint(loss * DECIMALS) / DECIMALS));
            }
        }
        return new IsoFlops(runs);
    }

    /** 10^(rung / 8) to three digits. */
    private static long size(int rung) {
        double exact = StrictMath.pow(10, (double) rung / SIZES_A_DECADE);
        double unit = StrictMath.pow(10, Math.max(0, rung / SIZES_A_DECADE - 2));
        return (long) (Math.rint(exact / unit) * unit);
    }
}
