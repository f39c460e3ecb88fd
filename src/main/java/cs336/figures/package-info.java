/**
 * The figures of the writeup and the notebooks: one class per chapter, which turns measurements into charts.
 *
 * <p>Read first: {@link cs336.figures.BenchmarkingFigures} (the usual pattern: a selection of measurements becomes a
 * line or bar chart), {@link cs336.figures.ProfilingFigures} (derived values and a timeline) and
 * {@link cs336.figures.TilePanel} (a drawing that is not a chart).
 *
 * <p>May use {@code distributed.bench}, {@code kernels}, {@code precision} and {@code scaling.laws}, and the packages
 * that they may use.
 */
package cs336.figures;
