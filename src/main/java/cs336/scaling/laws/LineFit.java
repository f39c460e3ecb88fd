package cs336.scaling.laws;

import java.util.List;
import java.util.SplittableRandom;
import java.util.function.ToDoubleFunction;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * A straight line through one minimum a budget, ln N over ln C. Everything that puts a minimum off the line counts as
 * its deviation: noise in the losses, and sizes of models that lie apart.
 *
 * <p>Intervals are those of the bootstrap-t (Davison and Hinkley, 1997, section 6.3.2), which knows that nine points
 * say little about their own deviation: each line that is fitted again is compared with the first in units of its own
 * standard error. Residuals are divided by √(1 − leverage) beforehand, so that all vary alike.
 */
public final class LineFit implements ScalingFit {
    /** A relative deviation of rounding. Points so near to a line are on it. */
    private static final double EXACT = 1e-12;

    /**
     * How near to 1 a leverage may come: nearer, of the residual by which it is divided nothing but rounding is left.
     */
    private static final double ALONE = 1e-10;

    private final List<Optimum> minima;
    private final Bootstrap bootstrap;
    private final LogLine line;
    private final List<LogLine> again;

    /**
     * @throws IllegalArgumentException for fewer than three points, or if all but one of them are of nearly the same
     *     budget
     */
    LineFit(List<Optimum> minima, Bootstrap bootstrap) {
        if (minima.size() < 3) {
            throw new IllegalArgumentException("minima must be at least 3, not " + minima.size());
        }
        this.minima = List.copyOf(minima);
        this.bootstrap = bootstrap;
        double[] x = minima.stream().mapToDouble(m -> Math.log(m.compute())).toArray();
        double[] y = minima.stream().mapToDouble(m -> Math.log(m.parameters())).toArray();
        line = LogLine.through(x, y);
        for (double at : x) {
            if (!(1 - line.leverage(at) > ALONE)) {
                throw new IllegalArgumentException("compute_budget must take at least 3 values that lie apart, not "
                        + minima.stream().map(m -> IsoFlops.flop(m.compute())).collect(Collectors.joining(", ")));
            }
        }
        again = line.deviation() < EXACT ? List.of() : again(x, y);
    }

    private List<LogLine> again(double[] x, double[] y) {
        double[] residuals = IntStream.range(0, x.length)
                .mapToDouble(i -> (y[i] - line.at(x[i])) / Math.sqrt(1 - line.leverage(x[i])))
                .toArray();
        SplittableRandom random = bootstrap.random();
        return IntStream.range(0, bootstrap.resamples())
                .mapToObj(i -> again(x, residuals, random))
                .toList();
    }

    private LogLine again(double[] x, double[] residuals, SplittableRandom random) {
        while (true) {
            double[] drawn = Bootstrap.drawn(residuals, random);
            double[] y = IntStream.range(0, x.length)
                    .mapToDouble(i -> line.at(x[i]) + drawn[i])
                    .toArray();
            LogLine other = LogLine.through(x, y);
            // The same residual for all points leaves no deviation to compare with.
            if (other.deviation() > EXACT) return other;
        }
    }

    /** The points that the line was drawn through, by budget. */
    public List<Optimum> minima() {
        return minima;
    }

    /** Standard deviation of the points from the line, in ln N: 0.1 is 10 % of a model's size. */
    public double deviation() {
        return line.deviation();
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
        double x = Math.log(compute);
        Interval log = interval(some -> some.at(x), some -> some.error(x));
        return new Interval(Math.exp(log.low()), Math.exp(log.high()));
    }

    private Interval interval(ToDoubleFunction<LogLine> value, ToDoubleFunction<LogLine> error) {
        double estimate = value.applyAsDouble(line);
        if (again.isEmpty()) return new Interval(estimate, estimate);
        Interval t = bootstrap.middle(again.stream()
                .mapToDouble(other -> (value.applyAsDouble(other) - estimate) / error.applyAsDouble(other))
                .toArray());
        double unit = error.applyAsDouble(line);
        return new Interval(estimate - t.high() * unit, estimate - t.low() * unit);
    }
}
