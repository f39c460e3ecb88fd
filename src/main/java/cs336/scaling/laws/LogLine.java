package cs336.scaling.laws;

import java.util.Arrays;

/**
 * The straight line nearest to points by least squares in y, and how far the points are from it.
 *
 * @param centre mean of the points' x, where the line has the value {@code level}
 * @param level mean of the points' y
 * @param slope of the line
 * @param deviation standard deviation of a point from the line, √(Σ residual² / (n − 2)); at least three points
 * @param spread Σ (x − centre)²
 * @param n how many points
 */
record LogLine(double centre, double level, double slope, double deviation, double spread, int n) {
    static LogLine through(double[] x, double[] y) {
        double centre = Arrays.stream(x).average().orElseThrow();
        double level = Arrays.stream(y).average().orElseThrow();
        double spread = 0;
        double product = 0;
        for (int i = 0; i < x.length; i++) {
            spread += (x[i] - centre) * (x[i] - centre);
            product += (x[i] - centre) * (y[i] - level);
        }
        double slope = product / spread;
        double squares = 0;
        for (int i = 0; i < x.length; i++) {
            double residual = y[i] - level - slope * (x[i] - centre);
            squares += residual * residual;
        }
        return new LogLine(centre, level, slope, Math.sqrt(squares / (x.length - 2)), spread, x.length);
    }

    double at(double x) {
        return level + slope * (x - centre);
    }

    /** Standard error of {@link #at}. */
    double error(double x) {
        return deviation * Math.sqrt(1.0 / n + (x - centre) * (x - centre) / spread);
    }

    /** Standard error of the slope. */
    double slopeError() {
        return deviation / Math.sqrt(spread);
    }

    /** How much a point at x pulls the line towards itself, from 0 to 1. */
    double leverage(double x) {
        return 1.0 / n + (x - centre) * (x - centre) / spread;
    }
}
