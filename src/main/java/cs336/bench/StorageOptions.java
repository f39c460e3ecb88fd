package cs336.bench;

import cs336.units.Separators;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import picocli.CommandLine.Option;

/** The options of every command that measures: the device, and the file in which measurements are stored. */
public final class StorageOptions {
    @Option(
            names = "--device",
            defaultValue = "best",
            paramLabel = "<device>",
            description =
                    "best (a GPU if there is one, otherwise the CPU), cpu, cuda, or cuda:N (GPU number N; not in allreduce,"
                            + " ddp, shard and fsdp, where each rank selects its GPU)")
    private String device;

    @Option(
            names = "--output",
            defaultValue = "data/measurements",
            paramLabel = "<folder>",
            description = "folder of the measurements of all machines")
    private Path output;

    @Option(
            names = "--machine",
            paramLabel = "<name>",
            description = "folder of this machine's measurements. Default: from the device, such as h200 or cpu-2core")
    private String machine;

    @Option(names = "--problem", paramLabel = "<name>", description = "file of the measurements, without .csv")
    private String problem;

    @Option(names = "--again", description = "measure the stored cases again")
    private boolean again;

    @Option(names = "--allow-dirty", description = "measure on GPUs although files differ from the commit")
    private boolean allowDirty;

    /** @param defaultProblem the file of the measurements if --problem is not given */
    public StorageOptions(String defaultProblem) {
        problem = defaultProblem;
    }

    /** Returns the device as the user wrote it. */
    public String device() {
        return device;
    }

    /** Returns the folder of the measurements of all machines. */
    public Path folder() {
        return output;
    }

    /** Returns the name of this machine's folder; null if --machine is not given. */
    public String machine() {
        return machine;
    }

    /** Returns the file name of the measurements, without {@code .csv}. */
    public String problem() {
        return problem;
    }

    /** Returns whether to measure stored cases again. */
    public boolean again() {
        return again;
    }

    /** Returns the same provenance with the machine name that the user gave, if any. */
    public Provenance named(Provenance provenance) {
        return provenance.named(machine);
    }

    /** Returns the file of the measurements from a machine. */
    public Measurements measurements(Provenance provenance) {
        return Measurements.of(output, provenance.machine(), problem);
    }

    /**
     * Checks --machine and --problem.
     *
     * @throws IllegalArgumentException if --machine is not a valid folder name or --problem not a valid file name
     */
    public void requireNames() {
        if (machine != null) {
            Provenance.requireName("--machine", machine);
        }
        if (!problem.matches("[A-Za-z0-9][A-Za-z0-9_-]*")) {
            throw new IllegalArgumentException("--problem must be letters, digits, '_' and '-', not '" + problem + "'");
        }
    }

    /**
     * Checks that a reader can find the sources of measurements on a GPU: no file differs from the commit, or
     * --allow-dirty is given.
     *
     * @throws IllegalArgumentException if the measurements must not be stored
     */
    public void requireClean(boolean gpu, String commit) {
        if (gpu && !allowDirty && Provenance.isDirty(commit)) {
            throw new IllegalArgumentException("files differ from the commit (" + commit
                    + "), so measurements on a GPU could not be repeated: commit the changes or give --allow-dirty");
        }
    }

    /**
     * Checks that measurements can be stored. Does not create the folder.
     *
     * @throws IllegalArgumentException if --machine is not a valid folder name or --problem not a valid file name
     * @throws IOException if files cannot be created in the folder
     */
    public void requireWritable() throws IOException {
        requireNames();
        ArgumentCheck.writableFolder("--output", output);
    }

    /**
     * A completed sweep.
     *
     * @param cases all cases without duplicates, including those that were stored before
     * @param measurements the file that contains their results
     * @param exitCode 0, or 1 if a case failed
     */
    public record Swept(List<Case> cases, Measurements measurements, int exitCode) {}

    /**
     * Surveys the machine, prints the number of cases and their file, and runs the cases that are not stored yet.
     *
     * @param cases returns the cases for the surveyed machine; may throw an {@link IllegalArgumentException}
     * @param configure sets further properties of the sweep
     */
    public Swept sweep(Function<MachineSurvey, List<Case>> cases, UnaryOperator<Sweep> configure)
            throws IOException, InterruptedException {
        MachineSurvey survey = MachineSurvey.of(device);
        List<Case> all = cases.apply(survey).stream()
                .map(c -> c.setting("device", survey.device()))
                .distinct()
                .toList();
        Provenance provenance = named(survey.provenance());
        requireClean(survey.isGpu(), provenance.commit());
        Measurements measurements = measurements(provenance);
        ArgumentCheck.writableFile("--problem", measurements.path()); // before anything is measured
        System.err.printf("%s: %s into %s%n", provenance.device(), numberOfCases(all.size()), measurements.path());
        Sweep sweep = configure.apply(new Sweep(measurements, provenance).again(again));
        return new Swept(all, measurements, sweep.run(all).exitCode());
    }

    /** Returns "1 case", "2 cases", … */
    public static String numberOfCases(int cases) {
        return cases == 1 ? "1 case" : Separators.of(cases) + " cases";
    }
}
