package cs336.scaling.laws;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.hipparchus.exception.MathRuntimeException;
import org.hipparchus.linear.Array2DRowRealMatrix;
import org.hipparchus.linear.ArrayRealVector;
import org.hipparchus.linear.RealMatrix;
import org.hipparchus.linear.RealVector;
import org.hipparchus.optim.nonlinear.vector.leastsquares.LeastSquaresBuilder;
import org.hipparchus.optim.nonlinear.vector.leastsquares.LeastSquaresOptimizer;
import org.hipparchus.optim.nonlinear.vector.leastsquares.LevenbergMarquardtOptimizer;
import org.hipparchus.util.Pair;

/**
 * Fits a {@link LossSurface} to losses as Hoffmann et al. (2022, section 3.3) do: the least sum of Huber's loss with δ
 * = 10⁻³ of ln L̂ − ln L, where ln L̂ is the logarithm of a sum of exponentials, log Σ exp(ln E, ln A − α·ln N, ln B −
 * β·ln D), from many starting points.
 *
 * <p>They use L-BFGS. Here it is Levenberg-Marquardt on the signed root of twice Huber's loss, whose half squares sum
 * to the same. ln N and ln D are taken from their means, or A and α could hardly be told apart.
 */
final class HuberFit {
    static final double DELTA = 1e-3;

    private static final double[] IRREDUCIBLE = {0.3, 0.6, 0.9}; // of the lowest loss
    private static final double[] EXPONENTS = {0.1, 0.3, 0.6, 1.0};
    private static final double[] SHARES = {0.25, 0.5, 0.75}; // of what is reducible, for N
    private static final int EVALUATIONS = 500;

    private final double[] n;
    private final double[] d;
    private final double meanN;
    private final double meanD;

    /** For runs of these sizes and data. */
    HuberFit(double[] logParameters, double[] logTokens) {
        meanN = Arrays.stream(logParameters).average().orElseThrow();
        meanD = Arrays.stream(logTokens).average().orElseThrow();
        n = Arrays.stream(logParameters).map(x -> x - meanN).toArray();
        d = Arrays.stream(logTokens).map(x -> x - meanD).toArray();
    }

    /**
     * The best surface from all starting points.
     *
     * @param logLosses of the runs
     * @throws IllegalStateException if no start leads anywhere
     */
    LossSurface fit(double[] logLosses) {
        LeastSquaresOptimizer.Optimum best = null;
        for (double[] start : starts(logLosses)) {
            LeastSquaresOptimizer.Optimum found = from(start, logLosses);
            if (found != null && (best == null || found.getCost() < best.getCost())) best = found;
        }
        if (best == null) throw new IllegalStateException("no loss surface could be fitted to these runs");
        return surface(best.getPoint());
    }

    /** The surface that one starts from, or where that leads nowhere, itself. */
    LossSurface refit(LossSurface start, double[] logLosses) {
        LeastSquaresOptimizer.Optimum found = from(
                new double[] {
                    Math.log(start.irreducible()),
                    Math.log(start.a()) - start.alpha() * meanN,
                    Math.log(start.b()) - start.beta() * meanD,
                    start.alpha(),
                    start.beta()
                },
                logLosses);
        return found == null ? start : surface(found.getPoint());
    }

    /** ln L̂ of each run. */
    double[] logLosses(LossSurface surface) {
        double[] logs = new double[n.length];
        for (int i = 0; i < n.length; i++) {
            logs[i] = Math.log(surface.loss(Math.exp(n[i] + meanN), Math.exp(d[i] + meanD)));
        }
        return logs;
    }

    private static List<double[]> starts(double[] logLosses) {
        double lowest = Math.exp(Arrays.stream(logLosses).min().orElseThrow());
        double mean = Arrays.stream(logLosses).map(Math::exp).average().orElseThrow();
        List<double[]> starts = new ArrayList<>();
        for (double part : IRREDUCIBLE) {
            double reducible = mean - part * lowest;
            for (double share : SHARES) {
                for (double alpha : EXPONENTS) {
                    for (double beta : EXPONENTS) {
                        starts.add(new double[] {
                            Math.log(part * lowest),
                            Math.log(share * reducible),
                            Math.log((1 - share) * reducible),
                            alpha,
                            beta
                        });
                    }
                }
            }
        }
        return starts;
    }

    private LossSurface surface(RealVector at) {
        return new LossSurface(
                Math.exp(at.getEntry(0)),
                Math.exp(at.getEntry(1) + at.getEntry(3) * meanN),
                at.getEntry(3),
                Math.exp(at.getEntry(2) + at.getEntry(4) * meanD),
                at.getEntry(4));
    }

    /** Where a start leads, or null: to no minimum, or to one that is no loss surface. */
    private LeastSquaresOptimizer.Optimum from(double[] start, double[] logLosses) {
        try {
            var found = new LevenbergMarquardtOptimizer()
                    .optimize(new LeastSquaresBuilder()
                            .start(start)
                            .model(at -> value(at, logLosses))
                            .target(new double[logLosses.length])
                            .maxEvaluations(EVALUATIONS)
                            .maxIterations(EVALUATIONS)
                            .build());
            surface(found.getPoint());
            return found;
        } catch (MathRuntimeException | IllegalArgumentException e) {
            return null;
        }
    }

    /**
     * Signed roots of twice Huber's loss, and their derivatives by ln E, the terms of N and D at the means, α and β.
     */
    private Pair<RealVector, RealMatrix> value(RealVector at, double[] logLosses) {
        double[] values = new double[n.length];
        double[][] jacobian = new double[n.length][];
        for (int i = 0; i < n.length; i++) {
            double ofN = at.getEntry(1) - at.getEntry(3) * n[i];
            double ofD = at.getEntry(2) - at.getEntry(4) * d[i];
            double top = Math.max(at.getEntry(0), Math.max(ofN, ofD));
            double shareE = Math.exp(at.getEntry(0) - top);
            double shareN = Math.exp(ofN - top);
            double shareD = Math.exp(ofD - top);
            double sum = shareE + shareN + shareD;
            double residual = top + Math.log(sum) - logLosses[i];
            double size = Math.abs(residual);
            double root = size <= DELTA ? size : Math.sqrt(DELTA * (2 * size - DELTA));
            values[i] = Math.copySign(root, residual);
            double slope = (size <= DELTA ? 1 : DELTA / root) / sum;
            jacobian[i] = new double[] {
                slope * shareE, slope * shareN, slope * shareD, -slope * shareN * n[i], -slope * shareD * d[i]
            };
        }
        return new Pair<>(new ArrayRealVector(values, false), new Array2DRowRealMatrix(jacobian, false));
    }
}
