package cs336.scaling.laws;

import java.util.Arrays;

/**
 * A simple linear regression of at least three points.
 *
 * @param centre mean x of the points
 * @param level mean y of the points, which is the line's value at {@code centre}
 * @param slope slope of the line
 * @param residualStandardDeviation standard deviation of the residuals, √(Σ residual² / (n − 2))
 * @param spread Σ (x − centre)²
 * @param n number of points
 */
record LogLine(double centre, double level, double slope, double residualStandardDeviation, double spread, int n) {
    /** Fits a line by least squares in y. */
    static LogLine through(double[] x, double[] y) {
        double centre = Arrays.stream(x).average().orElseThrow();
        double level = Arrays.stream(y).average().orElseThrow();
        double spread = 0;
        double covariance = 0;
        for (int i = 0; i < x.length; i++) {
            spread += (x[i] - centre) * (x[i] - centre);
            covariance += (x[i] - centre) * (y[i] - level);
        }
        double slope = covariance / spread;
        double squares = 0;
        for (int i = 0; i < x.length; i++) {
            double residual = y[i] - level - slope * (x[i] - centre);
            squares += residual * residual;
        }
        return new LogLine(centre, level, slope, Math.sqrt(squares / (x.length - 2)), spread, x.length);
    }

    /** Returns the value of the line at x. */
    double at(double x) {
        return level + slope * (x - centre);
    }

    /** Returns the standard error of {@link #at}. */
    double error(double x) {
        return residualStandardDeviation * Math.sqrt(1.0 / n + (x - centre) * (x - centre) / spread);
    }

    /** Returns the standard error of the slope. */
    double slopeError() {
        return residualStandardDeviation / Math.sqrt(spread);
    }

    /** Returns the leverage of a point at x: the derivative of the line's value at x by the point's y, from 0 to 1. */
    double leverage(double x) {
        return 1.0 / n + (x - centre) * (x - centre) / spread;
    }
}
