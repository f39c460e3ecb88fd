package cs336.bench;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import picocli.CommandLine.Option;

/** The options of every command that measures: on which device, and where the measurements go. */
public final class StorageOptions {
    @Option(
            names = "--device",
            defaultValue = "best",
            paramLabel = "<device>",
            description = "best, cpu, cuda or, for a single process, cuda:N. Default: ${DEFAULT-VALUE}")
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

    /** The folder of all machines' measurements. */
    public Path folder() {
        return output;
    }

    /** The machine's folder in it; null where the user named none. */
    public String machine() {
        return machine;
    }

    /** The file of these measurements, without ending. */
    public String problem() {
        return problem;
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

    /** @throws IllegalArgumentException if the machine is no name of a folder, or the problem none of a file */
    public void requireNames() {
        if (machine != null) Provenance.requireName(machine);
        if (!problem.matches("[A-Za-z0-9][A-Za-z0-9_-]*")) {
            throw new IllegalArgumentException("--problem must be letters, digits, '_' and '-', not '" + problem + "'");
        }
    }

    /**
     * What a sweep was about, and where its numbers are.
     *
     * @param cases all of them, on the device that was found, each once
     */
    public record Swept(List<Case> cases, Provenance provenance, Measurements measurements, int exitCode) {}

    /**
     * Surveys the machine, says how many cases go where, and runs those that are not stored yet.
     *
     * @param cases the cases for what the survey found; it may refuse them by an {@link IllegalArgumentException}
     * @param set sets what else there is to set of the sweep
     */
    public Swept sweep(Function<MachineSurvey, List<Case>> cases, UnaryOperator<Sweep> set)
            throws IOException, InterruptedException {
        MachineSurvey survey = MachineSurvey.of(device);
        List<Case> all = cases.apply(survey).stream()
                .map(c -> c.setting("device", survey.device()))
                .distinct()
                .toList();
        Provenance provenance = named(survey.provenance());
        Measurements measurements = measurements(provenance);
        System.err.printf("%s: %d cases into %s%n", provenance.device(), all.size(), measurements.path());
        Sweep.CaseCounts result =
                set.apply(new Sweep(measurements, provenance).again(again)).run(all);
        return new Swept(all, provenance, measurements, result.exitCode());
    }
}
