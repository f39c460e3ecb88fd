package cs336.bench;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.Function;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;

/** The options of every command that runs a sweep: on which device, and what becomes of the measurements. */
public final class SweepOptions {
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

    @Option(names = "--keep-steps", description = "store every single step too, in <problem>_steps.csv")
    private boolean keepSteps;

    @Option(names = "--again", description = "measure cases again that are stored already")
    private boolean again;

    @Option(
            names = "--time-limit",
            paramLabel = "<seconds>",
            description = "the longest a case may take. Default: none")
    private Long timeLimit;

    /** The options of a command whose measurements go to this file unless the user says otherwise. */
    public SweepOptions(String problem) {
        this.problem = problem;
    }

    /**
     * Surveys the machine, runs the cases that are not stored yet, and prints what is then stored.
     *
     * @param spec the command, for its output
     * @param cases the cases for what the survey found; it may refuse them by an {@link IllegalArgumentException}
     * @return the exit code
     * @throws IllegalArgumentException if an option or a case is wrong
     */
    public int run(CommandSpec spec, Function<Survey, List<Case>> cases) throws IOException, InterruptedException {
        if (timeLimit != null && timeLimit < 1) {
            throw new IllegalArgumentException("--time-limit must be at least 1, not " + timeLimit);
        }
        if (timeLimit != null && timeLimit > Integer.MAX_VALUE) {
            throw new IllegalArgumentException(
                    "--time-limit must be at most " + Integer.MAX_VALUE + ", not " + timeLimit);
        }
        if (!problem.matches("[A-Za-z0-9][A-Za-z0-9_-]*")) {
            throw new IllegalArgumentException("--problem must be letters, digits, '_' and '-', not '" + problem + "'");
        }
        Survey survey = Survey.of(device);
        List<Case> all = cases.apply(survey).stream()
                .map(c -> c.setting("device", survey.device()))
                .distinct()
                .toList();
        Provenance provenance = survey.provenance().named(machine);
        Measurements measurements = Measurements.of(output, provenance.machine(), problem);
        System.err.printf("%s: %d cases into %s%n", provenance.device(), all.size(), measurements.path());
        Sweep.Result result = new Sweep(measurements, provenance)
                .timeLimit(timeLimit == null ? null : Duration.ofSeconds(timeLimit))
                .again(again)
                .keepSteps(keepSteps)
                .run(all);
        spec.commandLine().getOut().println(ResultTable.of(measurements, all));
        spec.commandLine().getOut().flush();
        return result.exitCode();
    }
}
