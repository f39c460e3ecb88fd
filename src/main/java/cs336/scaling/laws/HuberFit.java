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
 * A robust fit of a {@link LossSurface}, as in Hoffmann et al. (2022, section 3.3): it minimizes the sum of the Huber
 * loss (δ = 10⁻³) of ln L̂ − ln L from many starting points. ln L̂ is the log-sum-exp of ln E, ln A − α·ln N and ln B −
 * β·ln D.
 *
 * <p>Hoffmann et al. use L-BFGS. This class uses Levenberg-Marquardt, which minimizes half the sum of squared
 * residuals. Its residuals are the signed roots of twice the Huber loss, so the objective is the same. ln N and ln D
 * are centred, because otherwise A and α, and B and β, are strongly correlated.
 */
final class HuberFit {
    static final double DELTA = 1e-3;

    private static final double[] IRREDUCIBLE = {0.3, 0.6, 0.9}; // fractions of the lowest loss
    private static final double[] EXPONENTS = {0.1, 0.3, 0.6, 1.0};
    private static final double[] PARAMETER_FRACTIONS = {0.25, 0.5, 0.75}; // of the reducible loss, for N
    private static final int EVALUATIONS = 500;

    private final double[] n;
    private final double[] d;
    private final double meanN;
    private final double meanD;

    /** Creates a fit to runs with these ln N and ln D. */
    HuberFit(double[] logParameters, double[] logTokens) {
        meanN = Arrays.stream(logParameters).average().orElseThrow();
        meanD = Arrays.stream(logTokens).average().orElseThrow();
        n = Arrays.stream(logParameters).map(x -> x - meanN).toArray();
        d = Arrays.stream(logTokens).map(x -> x - meanD).toArray();
    }

    /**
     * Returns the best fit from all starting points.
     *
     * @param logLosses ln L of the runs
     * @throws IllegalStateException if the fit does not converge from any starting point
     */
    LossSurface fit(double[] logLosses) {
        LeastSquaresOptimizer.Optimum best = null;
        for (double[] start : starts(logLosses)) {
            LeastSquaresOptimizer.Optimum found = minimize(start, logLosses);
            if (found != null && (best == null || found.getCost() < best.getCost())) {
                best = found;
            }
        }
        if (best == null) {
            throw new IllegalStateException(
                    "the fit of the loss surface does not converge from any of its starting points");
        }
        return surface(best.getPoint());
    }

    /** Returns the fit from one starting point, or the starting point if the fit does not converge. */
    LossSurface refit(LossSurface start, double[] logLosses) {
        LeastSquaresOptimizer.Optimum found = minimize(
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

    /** Returns ln L̂ of each run. */
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
        for (double irreducible : IRREDUCIBLE) {
            double reducible = mean - irreducible * lowest;
            for (double fraction : PARAMETER_FRACTIONS) {
                for (double alpha : EXPONENTS) {
                    for (double beta : EXPONENTS) {
                        starts.add(new double[] {
                            Math.log(irreducible * lowest),
                            Math.log(fraction * reducible),
                            Math.log((1 - fraction) * reducible),
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

    /** Returns the minimum found from a starting point, or null if the search fails or ends at an invalid surface. */
    private LeastSquaresOptimizer.Optimum minimize(double[] start, double[] logLosses) {
        try {
            var found = new LevenbergMarquardtOptimizer()
                    .optimize(new LeastSquaresBuilder()
                            .start(start)
                            .model(at -> residuals(at, logLosses))
                            .target(new double[logLosses.length])
                            .maxEvaluations(EVALUATIONS)
                            .maxIterations(EVALUATIONS)
                            .build());
            LossSurface surface = surface(found.getPoint());
            double coefficient = surface.law().coefficient();
            boolean hasLaw = Double.isFinite(surface.a())
                    && Double.isFinite(surface.b())
                    && coefficient > 0
                    && Double.isFinite(coefficient);
            return hasLaw ? found : null;
        } catch (MathRuntimeException | IllegalArgumentException e) {
            return null;
        }
    }

    /**
     * Returns the signed roots of twice the Huber loss, and their derivatives with respect to ln E, the terms of N and
     * D at the means, α and β.
     */
    private Pair<RealVector, RealMatrix> residuals(RealVector at, double[] logLosses) {
        double[] values = new double[n.length];
        double[][] jacobian = new double[n.length][];
        for (int i = 0; i < n.length; i++) {
            double termN = at.getEntry(1) - at.getEntry(3) * n[i];
            double termD = at.getEntry(2) - at.getEntry(4) * d[i];
            double top = Math.max(at.getEntry(0), Math.max(termN, termD));
            double expE = Math.exp(at.getEntry(0) - top);
            double expN = Math.exp(termN - top);
            double expD = Math.exp(termD - top);
            double sum = expE + expN + expD;
            double residual = top + Math.log(sum) - logLosses[i];
            double size = Math.abs(residual);
            double root = size <= DELTA ? size : Math.sqrt(DELTA * (2 * size - DELTA));
            values[i] = Math.copySign(root, residual);
            double slope = (size <= DELTA ? 1 : DELTA / root) / sum;
            jacobian[i] =
                    new double[] {slope * expE, slope * expN, slope * expD, -slope * expN * n[i], -slope * expD * d[i]};
        }
        return new Pair<>(new ArrayRealVector(values, false), new Array2DRowRealMatrix(jacobian, false));
    }
}
