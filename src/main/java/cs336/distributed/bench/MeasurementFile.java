package cs336.distributed.bench;

import cs336.bench.StorageOptions;
import java.io.Serializable;

/**
 * The file into which rank 0 stores what the ranks measure.
 *
 * @param folder of all machines' measurements, as {@code data/measurements}
 * @param machine folder in it; null for the name that follows from the devices
 * @param problem file in that, without ending
 * @param again whether to measure what is stored already
 */
public record MeasurementFile(String folder, String machine, String problem, boolean again) implements Serializable {
    /** As a command was told. */
    public static MeasurementFile of(StorageOptions options) {
        return new MeasurementFile(options.folder().toString(), options.machine(), options.problem(), options.again());
    }

    /** The file beside this one whose name goes on with an ending. */
    public MeasurementFile beside(String ending) {
        return new MeasurementFile(folder, machine, problem + ending, again);
    }
}
