package cs336.bench;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;

/** The options of every command that runs a {@link Sweep}. */
public final class SweepOptions {
    @Mixin
    private final StorageOptions storage;

    @Option(names = "--keep-steps", description = "also store the value of each step, in <problem>_steps.csv")
    private boolean keepSteps;

    @Option(names = "--time-limit", paramLabel = "<seconds>", description = "time limit of a case. Default: none")
    private Long timeLimit;

    /** @param defaultProblem the file of the measurements if --problem is not given */
    public SweepOptions(String defaultProblem) {
        storage = new StorageOptions(defaultProblem);
    }

    /**
     * Surveys the machine, runs the cases that are not stored yet, and prints the results of all cases.
     *
     * @param spec the command that prints them
     * @param cases returns the cases for the surveyed machine; may throw an {@link IllegalArgumentException}
     * @return the exit code
     * @throws IllegalArgumentException if an option or a case is invalid
     */
    public int run(CommandSpec spec, Function<MachineSurvey, List<Case>> cases)
            throws IOException, InterruptedException {
        return run(spec, cases, c -> new Object());
    }

    /**
     * Does the same as {@link #run(CommandSpec, Function)}, with shared processes.
     *
     * @param sharing returns the key of a case; see {@link Sweep#sharing}
     */
    public int run(CommandSpec spec, Function<MachineSurvey, List<Case>> cases, Function<Case, ?> sharing)
            throws IOException, InterruptedException {
        StorageOptions.Swept swept = sweep(cases, sweep -> sweep.sharing(sharing));
        List<String> tables = new ArrayList<>();
        for (List<Case> group : groups(swept.cases())) {
            tables.add(ResultTable.of(swept.measurements(), group));
        }
        spec.commandLine().getOut().println(String.join("\n\n", tables));
        spec.commandLine().getOut().flush();
        return swept.exitCode();
    }

    /**
     * Surveys the machine and runs the cases that are not stored yet, without printing their results.
     *
     * @param cases returns the cases for the surveyed machine; may throw an {@link IllegalArgumentException}
     * @param configure sets further properties of the sweep
     * @throws IllegalArgumentException if an option or a case is invalid
     */
    public StorageOptions.Swept sweep(Function<MachineSurvey, List<Case>> cases, UnaryOperator<Sweep> configure)
            throws IOException, InterruptedException {
        if (timeLimit != null) {
            ArgumentCheck.atLeast("--time-limit", 1, timeLimit);
        }
        storage.requireWritable();
        return storage.sweep(
                cases,
                sweep -> configure.apply(sweep.timeLimit(timeLimit == null ? null : Duration.ofSeconds(timeLimit))
                        .keepSteps(keepSteps)));
    }

    /** Groups neighbouring cases that have metrics in common; each group is printed as one table. */
    private static List<List<Case>> groups(List<Case> cases) {
        List<List<Case>> groups = new ArrayList<>();
        List<Metric> seen = List.of();
        for (Case c : cases) {
            if (Collections.disjoint(seen, c.metrics())) {
                groups.add(new ArrayList<>());
            }
            groups.get(groups.size() - 1).add(c);
            seen = c.metrics();
        }
        return groups;
    }
}
