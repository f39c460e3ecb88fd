package cs336.scaling.laws;

import java.util.Arrays;
import org.hipparchus.linear.Array2DRowRealMatrix;
import org.hipparchus.linear.ArrayRealVector;
import org.hipparchus.linear.QRDecomposition;
import org.hipparchus.linear.RealVector;

/**
 * y = bottom + curvature / 2 · (x − vertex)².
 *
 * @param vertex where it turns
 * @param bottom its value there
 * @param curvature its second derivative; above 0 where the vertex is a minimum
 */
public record Parabola(double vertex, double bottom, double curvature) {
    /** The parabola with the least squared distances in y from at least three points. */
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

    /** Its value at x. */
    public double at(double x) {
        return bottom + curvature / 2 * (x - vertex) * (x - vertex);
    }
}
