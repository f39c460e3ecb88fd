package cs336.distributed.bench;

import java.io.Serializable;

/**
 * The result of a benchmark that stores its measurements.
 *
 * @param file path of the file with the measurements
 * @param measured number of cases measured in this run; the others were already stored
 */
public record StoredResult(String file, int measured) implements Serializable {}
