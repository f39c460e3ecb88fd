package cs336.bench;

import java.io.IOException;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Function;

/**
 * Measures cases one after the other, each in a fresh JVM, so that none sees another's memory, caches or failures. A
 * finished case is on disk before the next one starts. Cases that are stored already are passed over, so a sweep that
 * was stopped goes on where it was.
 *
 * <p>Where starting a JVM would take longer than the cases, some may {@link #sharing share} one. After one that failed
 * or ran out of memory the next case starts in a fresh one all the same.
 *
 * <p>Running out of memory is a result. Any other failure is stored with status {@code error}, reported, and tried
 * again by the next run; the sweep goes on. Ending the sweep, even by {@code kill -9}, ends the process it has started.
 */
public final class Sweep {
    private static final int KILLED = 128 + 9;

    private final Measurements measurements;
    private final Provenance provenance;
    private Duration timeLimit;
    private boolean again;
    private boolean keepSteps;
    private Function<Case, ?> group = c -> new Object();
    private ExtraResults extraResults = (c, rows, provenance) -> {};
    private PrintStream progress = System.err;

    /** A sweep that stores into these measurements. */
    public Sweep(Measurements measurements, Provenance provenance) {
        this.measurements = measurements;
        this.provenance = provenance;
    }

    /**
     * The longest a case may take, with the start of its process if it is the first there; null, the default, for no
     * limit.
     */
    public Sweep timeLimit(Duration limit) {
        timeLimit = limit;
        return this;
    }

    /** Whether to measure stored cases again. */
    public Sweep again(boolean measureAgain) {
        again = measureAgain;
        return this;
    }

    /** Whether to store every single step too; see {@link Measurements#stepsPath()}. */
    public Sweep keepSteps(boolean keep) {
        keepSteps = keep;
        return this;
    }

    /**
     * Lets neighbouring cases of one workload share a JVM where this gives equal values for them. By default, none do.
     */
    public Sweep sharing(Function<Case, ?> equalValues) {
        group = equalValues;
        return this;
    }

    /** Stores what else a case has left. */
    @FunctionalInterface
    public interface ExtraResults {
        /**
         * Called when a case has ended, before its rows are stored: once they are there, it counts as done.
         *
         * @param rows where its rows will be stored
         */
        void store(Case c, Measurements rows, Provenance provenance) throws IOException;
    }

    /** What to store beside the rows of each case. */
    public Sweep alsoStore(ExtraResults what) {
        extraResults = what;
        return this;
    }

    /** Where to report progress; standard error by default. */
    public Sweep progress(PrintStream to) {
        progress = to;
        return this;
    }

    /**
     * What a sweep did.
     *
     * @param measured cases that ran, failed ones included
     * @param skipped cases that were stored already
     * @param failed cases that ended in status {@code error}
     */
    public record CaseCounts(int measured, int skipped, int failed) {
        /** For the shell: 0, or 1 if a case failed. */
        public int exitCode() {
            return failed == 0 ? 0 : 1;
        }
    }

    /** How a case ended, why, and what it recorded until then. */
    private record CaseOutcome(Status status, String reason, List<Samples> samples) {}

    /**
     * Runs the cases that are not stored yet.
     *
     * @throws IllegalArgumentException before anything runs, if a case announces no metric or does not fit the stored
     *     columns
     * @throws IOException if measurements cannot be read or written; before anything runs, if their folder cannot be
     */
    public CaseCounts run(List<Case> cases) throws IOException, InterruptedException {
        List<Case> open = new ArrayList<>();
        for (Case c : cases) {
            if (c.metrics().isEmpty()) throw new IllegalArgumentException("case " + c + " announces no metric");
            measurements.requireSameColumns(c);
            if (again || !measurements.holds(c)) open.add(c);
        }
        if (!open.isEmpty()) measurements.requireWritable();
        int skipped = cases.size() - open.size();
        if (skipped > 0) progress.printf("%d of %d cases are stored already%n", skipped, cases.size());

        int failed = 0;
        long start = System.nanoTime();
        for (int i = 0; i < open.size(); ) {
            try (var jvm = ChildJvm.start(Worker.class)) {
                Status status;
                do {
                    Case c = open.get(i++);
                    progress.printf("[%d/%d] %s … ", i, open.size(), c);
                    progress.flush();
                    CaseOutcome outcome = run(c, jvm);
                    status = outcome.status;
                    store(c, outcome);
                    Duration elapsed = Duration.ofNanos(System.nanoTime() - start);
                    Duration left = elapsed.dividedBy(i).multipliedBy(open.size() - i);
                    progress.printf("%s · %s elapsed, about %s left%n", describe(outcome), clock(elapsed), clock(left));
                } while (endedWell(status) && i < open.size() && mayShare(open.get(i - 1), open.get(i)));
                List<String> said = jvm.end().said();
                if (status == Status.ERROR) {
                    failed++;
                    said.forEach(line -> progress.println("    " + line));
                }
            }
        }
        return new CaseCounts(open.size(), skipped, failed);
    }

    private static boolean endedWell(Status status) {
        return status == Status.OK || status == Status.UNSUPPORTED;
    }

    private boolean mayShare(Case a, Case b) {
        return a.workload().equals(b.workload()) && group.apply(a).equals(group.apply(b));
    }

    private CaseOutcome run(Case c, ChildJvm jvm) throws InterruptedException {
        long start = System.nanoTime();
        List<Samples> samples = new ArrayList<>();
        jvm.tell(Worker.JSON.toJson(c));
        while (true) {
            String line = jvm.answer(timeLimit == null ? null : timeLimit.minusNanos(System.nanoTime() - start));
            if (line == null) return brokenOff(samples, jvm.end());
            Worker.WorkerMessage message = Worker.JSON.fromJson(line, Worker.WorkerMessage.class);
            if (message.status() != null)
                return checked(c, new CaseOutcome(message.status(), message.reason(), samples));
            samples.add(message.samples());
        }
    }

    private CaseOutcome brokenOff(List<Samples> samples, ChildJvm.Ending ending) {
        if (ending.timedOut()) return new CaseOutcome(Status.ERROR, "passed its limit of " + clock(timeLimit), samples);
        if (ending.exitCode() == KILLED) {
            return new CaseOutcome(Status.OOM, "killed, as Linux does when memory runs out", samples);
        }
        return new CaseOutcome(Status.ERROR, "its process " + died(ending.exitCode()), samples);
    }

    /** A workload that ends well has recorded what its case announced. */
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
        var rows = new ArrayList<Measurement>();
        outcome.samples.forEach(s -> rows.add(Measurement.of(s)));
        missing(c, outcome.samples).forEach(m -> rows.add(Measurement.missing(m, outcome.status)));
        // The rest first: the case counts as done once its rows are there.
        if (keepSteps && !outcome.samples.isEmpty()) measurements.putSteps(c, outcome.samples);
        if (outcome.status == Status.OK) extraResults.store(c, measurements, provenance.dated());
        measurements.put(c, rows, provenance.dated());
    }

    private static String describe(CaseOutcome outcome) {
        if (outcome.status == Status.OK) {
            Samples first = outcome.samples.get(0);
            return String.format(
                    Locale.ROOT,
                    "%s %.4g %s",
                    first.metric().name(),
                    first.summary().mean(),
                    first.metric().unit());
        }
        return outcome.status + " (" + outcome.reason + ")";
    }

    private static String died(int exitCode) {
        return exitCode > 128 ? "was ended by signal " + (exitCode - 128) : "ended early with exit code " + exitCode;
    }

    private static String clock(Duration d) {
        long s = Math.round(d.toMillis() / 1000.0);
        return s < 3600 ? "%d:%02d".formatted(s / 60, s % 60) : "%d:%02d:%02d".formatted(s / 3600, s / 60 % 60, s % 60);
    }
}
