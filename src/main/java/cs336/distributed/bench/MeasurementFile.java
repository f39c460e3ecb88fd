package cs336.distributed.bench;

import cs336.bench.Provenance;
import cs336.bench.StorageOptions;
import cs336.distributed.launch.LaunchOptions;
import cs336.torch.Device;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;

/**
 * The location of the file to which rank 0 writes the measurements of all ranks.
 *
 * @param folder folder of all machines' measurements, such as {@code data/measurements}
 * @param machine name of the machine's folder in it; null to derive it from the devices
 * @param problem name of the file in the machine's folder, without the extension
 * @param again whether to repeat cases that are already stored
 */
public record MeasurementFile(String folder, String machine, String problem, boolean again) implements Serializable {
    /**
     * Returns the file that the options of a command select. It is checked to be writable, so that no measurement is
     * lost.
     *
     * @throws IllegalArgumentException if the devices are GPUs and files differ from the commit, see
     *     {@link StorageOptions#requireClean}
     * @throws UncheckedIOException if files cannot be created in the folder
     */
    public static MeasurementFile of(StorageOptions options) {
        Device device = Device.parse(LaunchOptions.forAllRanks(options.device()));
        options.requireClean(device.isCuda(), Provenance.commitHere());
        try {
            options.requireWritable();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return new MeasurementFile(options.folder().toString(), options.machine(), options.problem(), options.again());
    }

    /** Returns the file in the same folder whose name has this suffix. */
    public MeasurementFile withSuffix(String suffix) {
        return new MeasurementFile(folder, machine, problem + suffix, again);
    }
}
