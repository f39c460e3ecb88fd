/**
 * Scaling laws fitted to training runs of several compute budgets: the compute-optimal numbers of parameters and
 * tokens.
 *
 * <p>Read first:
 *
 * <ol>
 *   <li>{@link cs336.scaling.laws.IsoFlops}: the runs.
 *   <li>{@link cs336.scaling.laws.FitMethod}: three methods to fit a law.
 *   <li>{@link cs336.scaling.laws.LossSurface} and {@link cs336.scaling.laws.PowerLaw}: the model of the loss, and the
 *       law that follows from it.
 *   <li>{@link cs336.scaling.laws.LineFit} and {@link cs336.scaling.laws.SurfaceFit}: the fits and their confidence
 *       intervals.
 * </ol>
 *
 * <p>May use {@code scaling}, and the packages that it may use.
 */
package cs336.scaling.laws;
