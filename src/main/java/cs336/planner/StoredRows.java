package cs336.planner;

import java.io.IOException;
import java.io.UncheckedIOException;
import tech.tablesaw.api.Row;

/** The use of stored measurements, which may be damaged. */
final class StoredRows {
    private StoredRows() {}

    /**
     * A calculation from stored measurements.
     *
     * @param <T> the type of the result
     */
    @FunctionalInterface
    interface StoredReading<T> {
        T get() throws IOException;
    }

    /** Returns the place of a row for {@link #use}. */
    static String place(String file, Row row) {
        return file + ", line " + (row.getRowNumber() + 2);
    }

    /**
     * Returns the result of a calculation.
     *
     * @param place file or folder of the measurements, and the line if it is known
     * @throws IOException if a file cannot be read, or a row or a column is missing or has another content than
     *     expected; the message names the place
     */
    static <T> T use(String place, StoredReading<T> reading) throws IOException {
        try {
            return reading.get();
        } catch (IllegalArgumentException | IllegalStateException | ClassCastException e) {
            throw new IOException(place + " cannot be used for a prediction: " + e.getMessage(), e);
        } catch (UncheckedIOException e) {
            throw e.getCause();
        }
    }
}
