package cs336.scaling.laws;

import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * A {@link LossSurface} through all runs, lowest or not, by {@link HuberFit}. Intervals are percentiles of the laws of
 * surfaces fitted again to resampled residuals of ln L, which are made wider by √(n / (n − 5)) for the five numbers
 * that were fitted.
 */
public final class SurfaceFit implements ScalingFit {
    private static final int NUMBERS = 5;

    private final Bootstrap bootstrap;
    private final LossSurface surface;
    private final double deviation;
    private final List<PowerLaw> again;

    /** @throws IllegalArgumentException for no more runs than a surface has numbers */
    SurfaceFit(List<TrainingRun> runs, Bootstrap bootstrap) {
        if (runs.size() <= NUMBERS) {
            throw new IllegalArgumentException("runs must be more than " + NUMBERS + ", not " + runs.size());
        }
        this.bootstrap = bootstrap;
        var fit = new HuberFit(
                runs.stream().mapToDouble(run -> Math.log(run.parameters())).toArray(),
                runs.stream().mapToDouble(run -> Math.log(run.tokens())).toArray());
        double[] observed =
                runs.stream().mapToDouble(run -> Math.log(run.loss())).toArray();
        surface = fit.fit(observed);
        double[] fitted = fit.logLosses(surface);
        double wider = Math.sqrt((double) runs.size() / (runs.size() - NUMBERS));
        double[] residuals = IntStream.range(0, observed.length)
                .mapToDouble(i -> wider * (observed[i] - fitted[i]))
                .toArray();
        deviation = Math.sqrt(IntStream.range(0, residuals.length)
                .mapToDouble(i -> residuals[i] * residuals[i])
                .average()
                .orElseThrow());
        SplittableRandom random = bootstrap.random();
        again = Stream.generate(() -> Bootstrap.drawn(residuals, random))
                .limit(bootstrap.resamples())
                .map(drawn -> IntStream.range(0, drawn.length)
                        .mapToDouble(i -> fitted[i] + drawn[i])
                        .toArray())
                .map(logLosses -> fit.refit(surface, logLosses).law())
                .toList();
    }

    /** The surface. */
    public LossSurface surface() {
        return surface;
    }

    /** The noise of the runs: standard deviation of ln L from the surface, so that 0.002 is 0.2 % of the loss. */
    public double deviation() {
        return deviation;
    }

    @Override
    public PowerLaw law() {
        return surface.law();
    }

    @Override
    public Interval exponent() {
        return bootstrap.middle(again.stream().mapToDouble(PowerLaw::exponent).toArray());
    }

    @Override
    public Interval parameters(double compute) {
        return bootstrap.middle(
                again.stream().mapToDouble(law -> law.at(compute).parameters()).toArray());
    }
}
