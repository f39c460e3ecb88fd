package cs336.charts;

/** How the horizontal axis of a line or scatter chart is divided. */
public enum Spacing {
    LINEAR,
    /** Powers of ten. */
    LOG10,
    /** Powers of two. */
    LOG2
}
