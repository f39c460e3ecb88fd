package cs336.bench;

import cs336.torch.MemoryStats;
import cs336.units.Bytes;
import cs336.units.HostLoad;
import cs336.units.Progress;
import java.io.IOException;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.function.Function;
import java.util.function.LongSupplier;

/**
 * A sequence of cases to measure, each in a new JVM, so that memory, caches and failures of a case do not affect
 * another. The results of a case are on disk before the next case starts. Cases that are already stored are skipped, so
 * an interrupted sweep can be resumed.
 *
 * <p>Short cases may {@link #sharing share} a JVM to save its start-up time. After a case that failed or ran out of
 * memory, the next case always gets a new JVM.
 *
 * <p>Running out of memory is a result. A process that SIGKILL ended ran out of memory if Linux meanwhile counted a
 * kill because memory was full; otherwise a user or another program may have killed it, which is a failure. Any other
 * failure is stored with status {@code error} and reported, and the next sweep tries the case again; this sweep
 * continues. When the process of the sweep ends, even by {@code kill -9}, its child process ends too.
 */
public final class Sweep {
    private static final int KILLED = 128 + 9; // SIGKILL

    private final Measurements measurements;
    private final Provenance provenance;
    private Duration timeLimit;
    private boolean again;
    private boolean keepSteps;
    private Function<Case, ?> sharingKey = c -> new Object();
    private ExtraResults extraResults = (c, rows, provenance) -> {};
    private PrintStream progress = System.err;
    private LongSupplier outOfMemoryKills = MemoryStats::outOfMemoryKills;

    /** Creates a sweep that stores its results in {@code measurements}. */
    public Sweep(Measurements measurements, Provenance provenance) {
        this.measurements = measurements;
        this.provenance = provenance;
    }

    /**
     * Sets the time limit of a case. It includes the start of the JVM for the first case in it.
     *
     * @param limit null, the default, for no limit
     */
    public Sweep timeLimit(Duration limit) {
        timeLimit = limit;
        return this;
    }

    /** Sets whether to measure stored cases again; false by default. */
    public Sweep again(boolean measureAgain) {
        again = measureAgain;
        return this;
    }

    /** Sets whether to also store the value of each step, in {@link Measurements#stepsPath()}; false by default. */
    public Sweep keepSteps(boolean keep) {
        keepSteps = keep;
        return this;
    }

    /**
     * Lets neighbouring cases of the same workload share a JVM if they have equal keys. By default, no cases share one.
     */
    public Sweep sharing(Function<Case, ?> key) {
        sharingKey = key;
        return this;
    }

    /** A store for further results of a case, such as the contents of files that it wrote. */
    @FunctionalInterface
    public interface ExtraResults {
        /**
         * Stores the further results of a completed case. It is called before the case's rows are stored, because a
         * case with stored rows is not measured again.
         *
         * @param rows the measurements in which the case's rows will be stored
         */
        void store(Case c, Measurements rows, Provenance provenance) throws IOException;

        /**
         * Checks before any case runs that further results can be stored.
         *
         * @throws IOException if the file that would contain them is damaged or cannot be written
         */
        default void check(Measurements rows) throws IOException {}
    }

    /** Sets a store for further results of each case that ends with status {@link Status#OK}. */
    public Sweep alsoStore(ExtraResults results) {
        extraResults = results;
        return this;
    }

    /** Sets the stream for progress reports; standard error by default. */
    public Sweep progress(PrintStream to) {
        progress = to;
        return this;
    }

    /** Sets the number of processes that Linux has killed because memory was full; tests replace it. */
    Sweep outOfMemoryKills(LongSupplier kills) {
        outOfMemoryKills = kills;
        return this;
    }

    /**
     * The numbers of cases in a completed sweep.
     *
     * @param measured cases that ran, including failed ones
     * @param skipped cases that were already stored
     * @param failed cases that ended with status {@code error}
     */
    public record CaseCounts(int measured, int skipped, int failed) {
        /** Returns 0, or 1 if a case failed. */
        public int exitCode() {
            return failed == 0 ? 0 : 1;
        }
    }

    /**
     * The status of a case, the reason if the status is not {@code ok}, and the samples that were recorded before the
     * case ended.
     */
    private record CaseOutcome(Status status, String reason, List<Samples> samples) {}

    /**
     * Runs the cases that are not stored yet, each once.
     *
     * @throws IllegalArgumentException before any case runs, if a case declares no metric, has no workload, or its
     *     parameters differ from the columns of the stored measurements
     * @throws IOException if measurements cannot be read or written; before any case runs, if their folder is not
     *     writable
     */
    public CaseCounts run(List<Case> cases) throws IOException, InterruptedException {
        List<Case> toMeasure = new ArrayList<>();
        for (Case c : withoutDuplicates(cases)) {
            if (c.metrics().isEmpty()) {
                throw new IllegalArgumentException("case " + c + " declares no metric");
            }
            if (c.workload().isEmpty()) {
                throw new IllegalArgumentException("case " + c + " has no workload, so a sweep cannot run it");
            }
            measurements.requireSameColumns(c);
            if (again || !measurements.holds(c)) {
                toMeasure.add(c);
            }
        }
        if (!toMeasure.isEmpty()) {
            measurements.requireWritable();
            extraResults.check(measurements);
        }
        int skipped = withoutDuplicates(cases).size() - toMeasure.size();
        if (skipped > 0) {
            progress.printf(
                    "%d of %s stored already; --again measures them again%n",
                    skipped, StorageOptions.numberOfCases(skipped + toMeasure.size()));
        }

        if (toMeasure.stream().flatMap(c -> c.metrics().stream()).anyMatch(Metric::isTime)) {
            HostLoad.check();
        }
        int failed = 0;
        Progress measuring = Progress.start(toMeasure.size());
        for (int i = 0; i < toMeasure.size(); ) {
            try (var jvm = ChildJvm.start(Worker.class)) {
                Status status;
                do {
                    Case c = toMeasure.get(i++);
                    progress.printf("[%d/%d] %s … ", i, toMeasure.size(), c);
                    progress.flush();
                    CaseOutcome outcome = run(c, jvm);
                    status = outcome.status;
                    store(c, outcome);
                    progress.printf("%s · %s%n", describe(outcome), measuring.times(i));
                } while (leavesJvmUsable(status)
                        && i < toMeasure.size()
                        && mayShare(toMeasure.get(i - 1), toMeasure.get(i)));
                List<String> lastLines = jvm.end().lastLines();
                if (status == Status.ERROR) {
                    failed++;
                    lastLines.forEach(line -> progress.println("    " + line));
                }
            }
        }
        return new CaseCounts(toMeasure.size(), skipped, failed);
    }

    private static Collection<Case> withoutDuplicates(List<Case> cases) {
        var distinct = new LinkedHashMap<List<Object>, Case>();
        cases.forEach(c -> distinct.putIfAbsent(List.of(c.implementation(), c.parameters()), c));
        return distinct.values();
    }

    private static boolean leavesJvmUsable(Status status) {
        return status == Status.OK || status == Status.UNSUPPORTED;
    }

    private boolean mayShare(Case a, Case b) {
        return a.workload().equals(b.workload()) && sharingKey.apply(a).equals(sharingKey.apply(b));
    }

    private CaseOutcome run(Case c, ChildJvm jvm) throws InterruptedException {
        long start = System.nanoTime();
        long killsBefore = outOfMemoryKills.getAsLong();
        List<Samples> samples = new ArrayList<>();
        jvm.tell(Worker.JSON.toJson(c));
        while (true) {
            String line = jvm.answer(timeLimit == null ? null : timeLimit.minusNanos(System.nanoTime() - start));
            if (line == null) {
                return endedEarly(samples, jvm.end(), killsBefore);
            }
            Worker.WorkerMessage message = Worker.JSON.fromJson(line, Worker.WorkerMessage.class);
            if (message.status() != null) {
                return checked(c, new CaseOutcome(message.status(), message.reason(), samples));
            }
            samples.add(message.samples());
        }
    }

    private CaseOutcome endedEarly(List<Samples> samples, ChildJvm.Ending ending, long killsBefore) {
        if (ending.timedOut()) {
            return new CaseOutcome(Status.ERROR, "exceeded its time limit of " + Progress.time(timeLimit), samples);
        }
        boolean killed = ending.exitCode() == KILLED;
        if (killed && outOfMemoryKills.getAsLong() > killsBefore) {
            return new CaseOutcome(
                    Status.OOM, "killed by SIGKILL while Linux killed processes because memory was full", samples);
        }
        return new CaseOutcome(
                Status.ERROR,
                "its process " + describe(ending.exitCode())
                        + (killed ? " (SIGKILL; Linux counted no out-of-memory kill in /proc/vmstat)" : ""),
                samples);
    }

    /** Returns status {@code error} if the workload did not record all metrics that the case declares. */
    private static CaseOutcome checked(Case c, CaseOutcome outcome) {
        List<String> missing =
                missing(c, outcome.samples).stream().map(Metric::name).toList();
        return outcome.status == Status.OK && !missing.isEmpty()
                ? new CaseOutcome(Status.ERROR, "the workload recorded no " + missing, outcome.samples)
                : outcome;
    }

    private static List<Metric> missing(Case c, List<Samples> samples) {
        List<Metric> recorded = samples.stream().map(Samples::metric).toList();
        return c.metrics().stream().filter(m -> !recorded.contains(m)).toList();
    }

    private void store(Case c, CaseOutcome outcome) throws IOException {
        if (outcome.status == Status.ERROR && measurements.holds(c)) {
            return; // measured again; the result and its steps stay
        }
        var rows = new ArrayList<Measurement>();
        List<Metric> missing = missing(c, outcome.samples);
        // A row must tell that the case did not end well, even if it failed after its last metric.
        Status recorded = missing.isEmpty() ? outcome.status : Status.OK;
        outcome.samples.forEach(s -> rows.add(new Measurement(s.metric(), s.summary(), recorded)));
        missing.forEach(m -> rows.add(Measurement.missing(m, outcome.status)));
        // The rows come last, because a case with stored rows is not measured again.
        if (keepSteps && !outcome.samples.isEmpty()) {
            measurements.putSteps(c, outcome.samples);
        }
        if (outcome.status == Status.OK) {
            extraResults.store(c, measurements, provenance.updated());
        }
        measurements.put(c, rows, provenance.updated());
    }

    private static String describe(CaseOutcome outcome) {
        if (outcome.status == Status.OK) {
            Samples shown = outcome.samples.stream()
                    .filter(samples -> samples.metric().name().equals("total"))
                    .findFirst()
                    .orElse(outcome.samples.get(0));
            double mean = shown.summary().mean();
            String unit = shown.metric().unit();
            return shown.metric().name().replace('-', ' ') + " "
                    + (unit.equals("bytes")
                            ? new Bytes(Math.round(mean))
                            : (AlignedText.number(mean) + " " + unit).strip());
        }
        return outcome.status + " (" + outcome.reason + ")";
    }

    private static String describe(int exitCode) {
        return exitCode > 128 ? "was ended by signal " + (exitCode - 128) : "ended early with exit code " + exitCode;
    }
}
