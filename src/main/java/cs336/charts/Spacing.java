package cs336.charts;

/** The scale of the horizontal axis of a line or scatter chart. */
public enum Spacing {
    /** Equal distances for equal differences. */
    LINEAR,
    /** Logarithmic, with ticks at powers of ten. */
    LOG10,
    /** Logarithmic, with ticks at powers of two. */
    LOG2;

    /** Returns the position of a value on the axis: the value, or its logarithm. */
    double toAxis(double value) {
        return switch (this) {
            case LINEAR -> value;
            case LOG10 -> Math.log10(value);
            case LOG2 -> Math.log(value) / Math.log(2);
        };
    }

    /** Returns the value at a position on the axis. */
    double fromAxis(double position) {
        return switch (this) {
            case LINEAR -> position;
            case LOG10 -> Math.pow(10, position);
            case LOG2 -> Math.pow(2, position);
        };
    }
}
