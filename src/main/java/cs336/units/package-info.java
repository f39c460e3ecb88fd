/**
 * Quantities with units, so that GB and GiB, or tokens and sequences, cannot be confused.
 *
 * <p>Read first: {@link cs336.units.Bytes}, {@link cs336.units.Bandwidth} and {@link cs336.units.Seconds}, which
 * convert into each other; {@link cs336.units.UnitFactors} for code that calculates with plain numbers;
 * {@link cs336.units.Progress}, which shows the completed steps and the remaining time of a loop;
 * {@link cs336.units.HostLoad}, which warns before times are measured on a busy host.
 *
 * <p>Uses no other package of the project.
 */
package cs336.units;
