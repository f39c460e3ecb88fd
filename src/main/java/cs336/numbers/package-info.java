/**
 * Queries into stored measurements: {@link cs336.numbers.MeasurementQuery} selects rows,
 * {@link cs336.numbers.References} puts numbers with units into prose, {@link cs336.numbers.Tables} prints tables.
 */
package cs336.numbers;
