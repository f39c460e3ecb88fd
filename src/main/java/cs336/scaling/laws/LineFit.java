package cs336.scaling.laws;

import java.util.List;
import java.util.SplittableRandom;
import java.util.function.ToDoubleFunction;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * A linear fit of ln N over ln C to one minimum per budget. The residuals have two causes: noise in the losses, and the
 * spacing of the model sizes.
 *
 * <p>Intervals come from the bootstrap-t (Davison and Hinkley, 1997, section 6.3.2): the difference of each refitted
 * value from the original one is divided by its own standard error. This accounts for the uncertainty of standard
 * errors that are estimated from few points. Residuals are divided by √(1 − leverage) first, so that all have the same
 * variance. The first interval runs the bootstrap.
 */
public final class LineFit implements ScalingFit {
    /** The largest standard deviation that rounding errors alone cause. */
    private static final double EXACT = 1e-12;

    /** Smallest 1 − leverage for which the residual is more than a rounding error. */
    private static final double LEAST_FREEDOM = 1e-10;

    private final List<Optimum> minima;
    private final Bootstrap bootstrap;
    private final LogLine line;
    private final double[] x; // ln C of each minimum
    private final double[] y; // ln N
    private List<LogLine> refitted; // null until an interval is needed

    /**
     * Fits a line.
     *
     * @throws IllegalArgumentException for fewer than three points, or if all but one have nearly the same budget
     */
    LineFit(List<Optimum> minima, Bootstrap bootstrap) {
        if (minima.size() < 3) {
            throw new IllegalArgumentException("minima must contain at least 3 points, not " + minima.size());
        }
        this.minima = List.copyOf(minima);
        this.bootstrap = bootstrap;
        x = minima.stream().mapToDouble(m -> Math.log(m.compute())).toArray();
        y = minima.stream().mapToDouble(m -> Math.log(m.parameters())).toArray();
        line = LogLine.through(x, y);
        for (double at : x) {
            if (!(1 - line.leverage(at) > LEAST_FREEDOM)) {
                throw new IllegalArgumentException("compute_budget must take at least 3 clearly different values, not "
                        + minima.stream().map(m -> IsoFlops.flop(m.compute())).collect(Collectors.joining(", ")));
            }
        }
    }

    /** Returns the lines of all resamples, which the first call fits; none if the residuals are rounding errors. */
    private synchronized List<LogLine> refitted() {
        if (refitted == null) {
            refitted = line.residualStandardDeviation() < EXACT ? List.of() : refit();
        }
        return refitted;
    }

    private List<LogLine> refit() {
        double[] residuals = IntStream.range(0, x.length)
                .mapToDouble(i -> (y[i] - line.at(x[i])) / Math.sqrt(1 - line.leverage(x[i])))
                .toArray();
        SplittableRandom random = bootstrap.random();
        return IntStream.range(0, bootstrap.resamples())
                .mapToObj(i -> resample(residuals, random))
                .toList();
    }

    private LogLine resample(double[] residuals, SplittableRandom random) {
        while (true) {
            double[] drawn = Bootstrap.drawn(residuals, random);
            double[] resampled = IntStream.range(0, x.length)
                    .mapToDouble(i -> line.at(x[i]) + drawn[i])
                    .toArray();
            LogLine other = LogLine.through(x, resampled);
            // If all points get the same residual, there is no standard error to divide by.
            if (other.residualStandardDeviation() > EXACT) {
                return other;
            }
        }
    }

    /** Returns the minima that the line is fitted to. */
    public List<Optimum> minima() {
        return minima;
    }

    /** Returns the standard deviation of the residuals in ln N: 0.1 is approximately 10 % of the model size. */
    public double residualStandardDeviation() {
        return line.residualStandardDeviation();
    }

    @Override
    public PowerLaw law() {
        return new PowerLaw(Math.exp(line.at(0)), line.slope());
    }

    @Override
    public Interval exponent() {
        return interval(LogLine::slope, LogLine::slopeError);
    }

    @Override
    public Interval parameters(double compute) {
        if (!(compute > 0)) {
            throw new IllegalArgumentException("compute must be above 0 FLOP, not " + compute);
        }
        double x = Math.log(compute);
        Interval log = interval(fitted -> fitted.at(x), fitted -> fitted.error(x));
        return new Interval(Math.exp(log.low()), Math.exp(log.high()));
    }

    private Interval interval(ToDoubleFunction<LogLine> value, ToDoubleFunction<LogLine> error) {
        double estimate = value.applyAsDouble(line);
        if (refitted().isEmpty()) {
            return new Interval(estimate, estimate);
        }
        Interval t = bootstrap.central(refitted().stream()
                .mapToDouble(other -> (value.applyAsDouble(other) - estimate) / error.applyAsDouble(other))
                .toArray());
        double unit = error.applyAsDouble(line);
        return new Interval(estimate - t.high() * unit, estimate - t.low() * unit);
    }
}
