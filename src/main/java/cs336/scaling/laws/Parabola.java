package cs336.scaling.laws;

import java.util.Arrays;
import org.hipparchus.linear.Array2DRowRealMatrix;
import org.hipparchus.linear.ArrayRealVector;
import org.hipparchus.linear.QRDecomposition;
import org.hipparchus.linear.RealVector;

/**
 * A parabola y = bottom + curvature / 2 · (x − vertex)².
 *
 * @param vertex x of the vertex
 * @param bottom y of the vertex
 * @param curvature second derivative; above 0 if the vertex is a minimum
 */
public record Parabola(double vertex, double bottom, double curvature) {
    /** Fits a parabola to at least three points by least squares in y. */
    static Parabola through(double[] x, double[] y) {
        double centre = Arrays.stream(x).average().orElseThrow();
        double[][] powers = Arrays.stream(x)
                .map(at -> at - centre)
                .mapToObj(u -> new double[] {1, u, u * u})
                .toArray(double[][]::new);
        RealVector c = new QRDecomposition(new Array2DRowRealMatrix(powers, false))
                .getSolver()
                .solve(new ArrayRealVector(y, false));
        double turn = -c.getEntry(1) / (2 * c.getEntry(2));
        return new Parabola(centre + turn, c.getEntry(0) + c.getEntry(1) * turn / 2, 2 * c.getEntry(2));
    }

    /** Returns the value at x. */
    public double at(double x) {
        return bottom + curvature / 2 * (x - vertex) * (x - vertex);
    }
}
