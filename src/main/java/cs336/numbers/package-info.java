/**
 * Queries of stored measurements, for the writeup, the notebooks and the figures.
 *
 * <p>Read {@link cs336.numbers.MeasurementQuery} first (selects rows and numbers), then
 * {@link cs336.numbers.Expression} (the syntax of references), {@link cs336.numbers.MeasuredTable} (tables in a
 * writeup) and {@link cs336.numbers.Tables} (tables from records, and their output).
 *
 * <p>May use {@code bench} and {@code charts}, and the packages that they may use.
 */
package cs336.numbers;
