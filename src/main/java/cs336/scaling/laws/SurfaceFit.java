package cs336.scaling.laws;

import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.ToDoubleFunction;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * A fit of a {@link LossSurface} to all runs by {@link HuberFit}. Intervals are percentiles of the laws of surfaces
 * that are fitted to resampled values of ln L. The residuals are scaled by √(n / (n − 5)) to correct for the five
 * fitted numbers. The first interval runs the bootstrap.
 */
public final class SurfaceFit implements ScalingFit {
    private static final int FITTED_NUMBERS = 5;
    private static final int FITTED_TO_SIZES = 3; // E, A and α, or E, B and β
    private static final double DISTINCT = 1e-6; // least difference of ln N or ln D

    private final Bootstrap bootstrap;
    private final LossSurface surface;
    private final double deviation;
    private final HuberFit fit;
    private final double[] fitted; // ln L of each run on the surface
    private final double[] residuals;
    private List<PowerLaw> refitted; // null until an interval is needed

    /**
     * Fits a surface.
     *
     * @throws IllegalArgumentException for fewer than six runs, or fewer than three values of N or D
     */
    SurfaceFit(List<TrainingRun> runs, Bootstrap bootstrap) {
        if (runs.size() <= FITTED_NUMBERS) {
            throw new IllegalArgumentException(
                    "runs must contain more than " + FITTED_NUMBERS + " runs, not " + runs.size());
        }
        this.bootstrap = bootstrap;
        fit = new HuberFit(
                logarithms("parameters", runs, TrainingRun::parameters),
                logarithms("tokens, compute_budget / (6 · parameters),", runs, TrainingRun::tokens));
        double[] observed =
                runs.stream().mapToDouble(run -> Math.log(run.loss())).toArray();
        surface = fit.fit(observed);
        fitted = fit.logLosses(surface);
        double scale = Math.sqrt((double) runs.size() / (runs.size() - FITTED_NUMBERS));
        residuals = IntStream.range(0, observed.length)
                .mapToDouble(i -> scale * (observed[i] - fitted[i]))
                .toArray();
        deviation = Math.sqrt(IntStream.range(0, residuals.length)
                .mapToDouble(i -> residuals[i] * residuals[i])
                .average()
                .orElseThrow());
    }

    /** Returns the logarithms of numbers that take enough values to determine their exponent. */
    private static double[] logarithms(String name, List<TrainingRun> runs, ToDoubleFunction<TrainingRun> number) {
        double[] logs = runs.stream().mapToDouble(number).map(Math::log).toArray();
        long values = Arrays.stream(logs)
                .mapToLong(log -> Math.round(log / DISTINCT))
                .distinct()
                .count();
        if (values < FITTED_TO_SIZES) {
            throw new IllegalArgumentException(
                    name + " must take at least " + FITTED_TO_SIZES + " values for a loss surface, not " + values);
        }
        return logs;
    }

    /** Returns the laws of all resamples, which the first call fits. */
    private synchronized List<PowerLaw> refitted() {
        if (refitted == null) {
            SplittableRandom random = bootstrap.random();
            refitted = Stream.generate(() -> Bootstrap.drawn(residuals, random))
                    .limit(bootstrap.resamples())
                    .map(drawn -> IntStream.range(0, drawn.length)
                            .mapToDouble(i -> fitted[i] + drawn[i])
                            .toArray())
                    .map(logLosses -> fit.refit(surface, logLosses).law())
                    .toList();
        }
        return refitted;
    }

    /** Returns the fitted surface. */
    public LossSurface surface() {
        return surface;
    }

    /** Returns the noise of the runs: the standard deviation of the residuals in ln L. 0.002 is 0.2 % of the loss. */
    public double residualStandardDeviation() {
        return deviation;
    }

    @Override
    public PowerLaw law() {
        return surface.law();
    }

    @Override
    public Interval exponent() {
        return bootstrap.central(
                refitted().stream().mapToDouble(PowerLaw::exponent).toArray());
    }

    @Override
    public Interval parameters(double compute) {
        return bootstrap.central(refitted().stream()
                .mapToDouble(law -> law.at(compute).parameters())
                .toArray());
    }
}
