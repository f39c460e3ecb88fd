package cs336.charts;

/** The scale of the horizontal axis of a line or scatter chart. */
public enum Spacing {
    /** Equal distances for equal differences. */
    LINEAR,
    /** Logarithmic, with ticks at powers of ten. */
    LOG10,
    /** Logarithmic, with ticks at powers of two. */
    LOG2
}
