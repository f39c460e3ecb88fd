package cs336.scaling;

/** A linear least-squares fit of two parameters p and q to equations x·p + y·q = z, by its normal equations. */
public final class TwoParameterFit {
    private double xx;
    private double xy;
    private double yy;
    private double xz;
    private double yz;

    /** Adds the equation x·p + y·q = z. */
    public void add(double x, double y, double z) {
        xx += x * x;
        xy += x * y;
        yy += y * y;
        xz += x * z;
        yz += y * z;
    }

    /** Returns whether the equations determine both parameters. */
    public boolean isDetermined() {
        return determinant() > 1e-12 * xx * yy;
    }

    /** Returns p. */
    public double first() {
        return (xz * yy - yz * xy) / determinant();
    }

    /** Returns q. */
    public double second() {
        return (yz * xx - xz * xy) / determinant();
    }

    private double determinant() {
        return xx * yy - xy * xy;
    }
}
