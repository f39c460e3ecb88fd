package cs336.report;

/** How the horizontal axis of a line or scatter chart is divided. */
enum Spacing {
    LINEAR,
    /** Powers of ten. */
    LOG10,
    /** Powers of two. */
    LOG2
}
