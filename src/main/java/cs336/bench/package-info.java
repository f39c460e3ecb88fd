/**
 * Measurement: timers, sweeps whose cases run in child processes, and CSV files of results.
 *
 * <p>Read first: {@link cs336.bench.Stopwatch}, which times code on a device; {@link cs336.bench.Benchmark}, which
 * times the passes of a language model; {@link cs336.bench.Case} and {@link cs336.bench.Sweep}, which measure many
 * configurations; {@link cs336.bench.Measurements}, which stores the results.
 *
 * <p>May use {@code basics} and {@code units}, and the packages that they may use.
 */
package cs336.bench;
