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

/** The options of every command that runs a sweep. */
public final class SweepOptions {
    @Mixin
    private final StorageOptions storage;

    @Option(names = "--keep-steps", description = "store every single step too, in <problem>_steps.csv")
    private boolean keepSteps;

    @Option(
            names = "--time-limit",
            paramLabel = "<seconds>",
            description = "the longest a case may take. Default: none")
    private Long timeLimit;

    /** The options of a command whose measurements go to this file unless the user says otherwise. */
    public SweepOptions(String problem) {
        storage = new StorageOptions(problem);
    }

    /**
     * Surveys the machine, runs the cases that are not stored yet, and prints what is then stored.
     *
     * @param spec the command, for its output
     * @param cases the cases for what the survey found; it may refuse them by an {@link IllegalArgumentException}
     * @return the exit code
     * @throws IllegalArgumentException if an option or a case is wrong
     */
    public int run(CommandSpec spec, Function<MachineSurvey, List<Case>> cases)
            throws IOException, InterruptedException {
        return run(spec, cases, c -> new Object());
    }

    /** As {@link #run(CommandSpec, Function)}, with processes that cases share; see {@link Sweep#sharing}. */
    public int run(CommandSpec spec, Function<MachineSurvey, List<Case>> cases, Function<Case, ?> sharing)
            throws IOException, InterruptedException {
        StorageOptions.Swept swept = sweep(cases, sweep -> sweep.sharing(sharing));
        List<String> tables = new ArrayList<>();
        for (List<Case> alike : alike(swept.cases())) {
            tables.add(ResultTable.of(swept.measurements(), alike));
        }
        spec.commandLine().getOut().println(String.join("\n\n", tables));
        spec.commandLine().getOut().flush();
        return swept.exitCode();
    }

    /**
     * Surveys the machine and runs the cases that are not stored yet, without printing what is then stored.
     *
     * @param set sets what else there is to set of the sweep
     */
    public StorageOptions.Swept sweep(Function<MachineSurvey, List<Case>> cases, UnaryOperator<Sweep> set)
            throws IOException, InterruptedException {
        if (timeLimit != null) ArgumentCheck.atLeast("--time-limit", 1, timeLimit);
        storage.requireNames();
        return storage.sweep(
                cases,
                sweep -> set.apply(sweep.timeLimit(timeLimit == null ? null : Duration.ofSeconds(timeLimit))
                        .keepSteps(keepSteps)));
    }

    /** Neighbouring cases that have metrics in common, and so make one table. */
    private static List<List<Case>> alike(List<Case> cases) {
        List<List<Case>> tables = new ArrayList<>();
        List<Metric> seen = List.of();
        for (Case c : cases) {
            if (Collections.disjoint(seen, c.metrics())) {
                tables.add(new ArrayList<>());
            }
            tables.get(tables.size() - 1).add(c);
            seen = c.metrics();
        }
        return tables;
    }
}
