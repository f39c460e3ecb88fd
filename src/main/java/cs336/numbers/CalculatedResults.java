package cs336.numbers;

import cs336.bench.Case;
import cs336.bench.Measurement;
import cs336.bench.Measurements;
import cs336.bench.Provenance;
import cs336.torch.Device;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/**
 * A CSV file of calculated results, in the format and next to the files of measurements. They depend on no machine, so
 * their folder is not named after a machine.
 */
public final class CalculatedResults {
    /** The name of the folder for results that depend on no machine. */
    public static final String ON_PAPER = "on-paper";

    private final Measurements file;
    private final String folder;
    private Provenance provenance;

    /**
     * Opens a file, which does not have to exist yet.
     *
     * @param output folder of the measurements of all machines
     * @param folder name of the folder in it
     * @param problem name of the file without {@code .csv}
     */
    public CalculatedResults(Path output, String folder, String problem) {
        file = Measurements.of(output, folder, problem);
        this.folder = folder;
    }

    /** Deletes the file, so that it does not keep results calculated from measurements that no longer exist. */
    public void clear() throws IOException {
        file.clear();
    }

    /** Stores the numbers of a case and replaces its earlier ones. */
    public void put(Case c, List<Measurement> numbers) throws IOException {
        file.put(c, numbers, provenance());
    }

    /**
     * Stores the numbers of several cases. They replace all earlier ones with the implementation and the parameters of
     * {@code common}, also those of other cases.
     */
    public void putAll(Case common, Map<Case, List<Measurement>> numbers) throws IOException {
        file.putAll(common, numbers, provenance());
    }

    private Provenance provenance() {
        if (provenance == null) {
            provenance = Provenance.of(Device.cpu()).named(folder);
        }
        return provenance;
    }

    /** Returns the path of the file. */
    public Path path() {
        return file.path();
    }

    /** Returns a calculated number. */
    public static Measurement number(String metric, String unit, double value) {
        return Measurement.once(metric, unit, value);
    }
}
