package cs336.bench;

import java.nio.file.Path;
import picocli.CommandLine.Option;

/** The options of every command that measures: on which device, and where the measurements go. */
public final class StorageOptions {
    @Option(
            names = "--device",
            defaultValue = "best",
            paramLabel = "<device>",
            description = "best, cpu, cuda or cuda:N. Default: ${DEFAULT-VALUE}")
    private String device;

    @Option(
            names = "--output",
            defaultValue = "data/measurements",
            paramLabel = "<folder>",
            description = "where measurements are stored. Default: ${DEFAULT-VALUE}")
    private Path output;

    @Option(
            names = "--machine",
            paramLabel = "<name>",
            description = "folder of this machine's measurements. Default: from the device, such as h200 or cpu-2core")
    private String machine;

    @Option(
            names = "--problem",
            paramLabel = "<name>",
            description = "file of these measurements, without .csv. Default: ${DEFAULT-VALUE}")
    private String problem;

    @Option(names = "--again", description = "measure cases again that are stored already")
    private boolean again;

    /** The options of a command whose measurements go to this file unless the user says otherwise. */
    public StorageOptions(String problem) {
        this.problem = problem;
    }

    /** The device as the user named it. */
    public String device() {
        return device;
    }

    /** Whether to measure stored cases again. */
    public boolean again() {
        return again;
    }

    /** The same origin under the machine name that the user gave, if any. */
    public Provenance named(Provenance provenance) {
        return provenance.named(machine);
    }

    /** Where the measurements of this origin are stored. */
    public Measurements measurements(Provenance provenance) {
        return Measurements.of(output, provenance.machine(), problem);
    }

    /** @throws IllegalArgumentException if the problem is no name of a file */
    public void requireProblem() {
        if (!problem.matches("[A-Za-z0-9][A-Za-z0-9_-]*")) {
            throw new IllegalArgumentException("--problem must be letters, digits, '_' and '-', not '" + problem + "'");
        }
    }
}
