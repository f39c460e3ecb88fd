package cs336.distributed.launch;

import cs336.bench.ChildJvm;
import cs336.bench.Status;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Rendezvous;
import cs336.distributed.collectives.Serialization;
import java.io.IOException;
import java.io.PrintStream;
import java.io.Serializable;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * The processes of all ranks, monitored until every rank has returned its value or one has failed. Closing it ends
 * them.
 */
final class RankProcesses implements AutoCloseable {
    /** Additional time for a collective to report its own timeout, before its rank counts as unresponsive. */
    private static final Duration MARGIN = Duration.ofSeconds(2);

    /** Time to collect reports of other ranks after a failure; the first report rarely names the cause. */
    private static final Duration REPORT_TIME = Duration.ofMillis(1500);

    /** Longest time between two looks at the clock. */
    private static final Duration TICK = Duration.ofMillis(250);

    /** Time between two looks at the clock after which this process counts as stopped in between. */
    private static final Duration LEAST_STOP = Duration.ofSeconds(1);

    private static final String NCCL_TIMEOUT = "Watchdog caught collective operation timeout";

    private static final Pattern CRASH = Pattern.compile("(?m)^#\\s+(SIG[A-Z]+) \\(0x([0-9a-f]+)\\) at pc=");
    private static final int HEXADECIMAL = 16;

    private static final int SIGNAL = 128;
    private static final int KILL = 9;
    private static final int ABORT = 6;

    private final int size;
    private final Duration timeout;
    private final Duration loadingTimeout;
    private final PrintStream output;
    private final List<RankProcess> ranks = new ArrayList<>();
    private final BlockingQueue<RankEvent> events = new LinkedBlockingQueue<>();
    private boolean jobIsSent;
    private long lastTick = System.nanoTime();
    private long resumed = lastTick; // the end of the last time in which this process was stopped

    RankProcesses(int size, Duration timeout, Duration loadingTimeout, PrintStream output) {
        this.size = size;
        this.timeout = timeout;
        this.loadingTimeout = loadingTimeout;
        this.output = output;
    }

    /** A message of a rank, or the end of its process. */
    private record RankEvent(int rank, RankWorker.RankMessage message, ChildJvm.Ending ending) {}

    /** The state of one rank as known to the launcher. */
    private static final class RankProcess {
        final int number;
        final long started = System.nanoTime();
        ChildJvm jvm;
        volatile long lastActivity;
        boolean loaded;
        RankWorker.Value value;
        RankWorker.Failed failed;
        ChildJvm.Ending ending;
        String location;
        List<String> lastCalls = List.of();
        private CompletableFuture<Void> told = CompletableFuture.completedFuture(null);

        RankProcess(int number) {
            this.number = number;
        }

        /**
         * Sends a line after those before, without waiting: a stopped process reads nothing, and a pipe may be full.
         */
        void tell(String line) {
            told = told.thenRunAsync(() -> jvm.tell(line), task -> {
                var thread = new Thread(task, "to rank " + number);
                thread.setDaemon(true);
                thread.start();
            });
        }

        /** Returns whether nothing more is expected from the rank. */
        boolean isOver() {
            return value != null || failed != null || ending != null;
        }

        /** Returns whether the process ended without a message. */
        boolean isLost() {
            return value == null && failed == null && ending != null;
        }
    }

    /** Starts the process of the next rank. */
    void start(Map<String, String> variables) throws IOException {
        var rank = new RankProcess(ranks.size());
        ranks.add(rank);
        rank.jvm = ChildJvm.start(RankWorker.class, variables, line -> {
            rank.lastActivity = System.nanoTime();
            if (isRelevant(line)) {
                output.println("[" + rank.number + "] " + line);
            }
        });
        var listener = new Thread(() -> listen(rank));
        listener.setDaemon(true);
        listener.start();
    }

    private static boolean isRelevant(String line) {
        return !line.isBlank() && !line.matches("\\[Gloo\\] Rank .*|(NOTE: )?Picked up (JAVA_TOOL|JDK_JAVA)_OPTIONS.*");
    }

    private void listen(RankProcess rank) {
        try {
            for (String line; (line = rank.jvm.answer(null)) != null; ) {
                rank.lastActivity = System.nanoTime();
                events.add(new RankEvent(rank.number, message(line), null));
            }
            events.add(new RankEvent(rank.number, null, rank.jvm.end()));
        } catch (InterruptedException e) {
            // This thread is never interrupted.
        }
    }

    /** Returns the message of a line, or a failure if it is damaged. */
    private static RankWorker.RankMessage message(String line) {
        try {
            if (Serialization.ofLine(line) instanceof RankWorker.RankMessage message) {
                return message;
            }
            return damaged("it is of another type");
        } catch (IllegalArgumentException | IllegalStateException e) {
            return damaged(e.getMessage());
        }
    }

    private static RankWorker.Failed damaged(String why) {
        return new RankWorker.Failed("its message to the launcher is damaged: " + why, "", true, false, List.of());
    }

    /**
     * Sends the job to all ranks once all have loaded their libraries, and waits for their values.
     *
     * @return the value of each rank, in the order of ranks
     * @throws RankFailure if a rank failed, with an error file
     */
    <R extends Serializable> List<R> run(String job) throws InterruptedException {
        try {
            return await(job);
        } catch (RankFailure e) {
            List<FailureReport.RankState> states =
                    ranks.stream().map(RankProcesses::state).toList();
            throw e.withReport(FailureReport.write(e.getMessage(), states));
        }
    }

    private static FailureReport.RankState state(RankProcess rank) {
        String state;
        if (rank.failed != null) {
            state = rank.failed.reason();
        } else if (rank.value != null) {
            state = "it has returned its value";
        } else {
            state = rank.ending == null ? "it " + status(rank) : end(rank.ending);
        }
        String lastLines = rank.ending == null ? "" : String.join("\n", rank.ending.lastLines());
        String details = rank.failed == null ? lastLines : rank.failed.trace() + "\n" + lastLines;
        return new FailureReport.RankState(rank.number, state, rank.lastCalls, details.strip());
    }

    private <R extends Serializable> List<R> await(String job) throws InterruptedException {
        while (!ranks.stream().allMatch(rank -> rank.loaded)) {
            handleNext(loadingTimeout);
        }
        jobIsSent = true;
        ranks.forEach(rank -> {
            rank.lastActivity = System.nanoTime();
            rank.tell(job);
        });
        while (!ranks.stream().allMatch(rank -> rank.value != null)) {
            handleNext(timeout.plus(MARGIN));
        }
        collectReportsUntil(() -> ranks.stream().allMatch(rank -> rank.ending != null)); // and their last output
        var values = new ArrayList<R>();
        for (RankProcess rank : ranks) {
            values.add(Serialization.value(rank.value.value()));
        }
        return values;
    }

    /** Handles the next event, or fails if a rank is overdue. */
    private void handleNext(Duration limit) throws InterruptedException {
        RankEvent event = events.poll(TICK.toNanos(), TimeUnit.NANOSECONDS);
        noteStop();
        if (event == null) {
            for (RankProcess rank : ranks) {
                if (isAwaited(rank) && lastTick - awaitedSince(rank) >= limit.toNanos()) {
                    throw jobIsSent ? silent(rank, limit) : notLoaded(rank, limit);
                }
            }
            return;
        }
        update(event);
        if (ranks.stream().anyMatch(rank -> rank.failed != null || rank.isLost())) {
            throw failure();
        }
    }

    /** Returns whether the launcher waits for this rank. */
    private boolean isAwaited(RankProcess rank) {
        return !rank.isOver() && (jobIsSent || !rank.loaded);
    }

    private long awaitedSince(RankProcess rank) {
        long since = jobIsSent ? rank.lastActivity : rank.started;
        return Math.max(since - resumed, 0) + resumed;
    }

    /** Notes whether this process was stopped, as by Ctrl-Z: its ranks then have the whole timeout again. */
    private void noteStop() {
        long now = System.nanoTime();
        if (now - lastTick > LEAST_STOP.toNanos()) {
            resumed = now;
        }
        lastTick = now;
    }

    private void update(RankEvent event) {
        RankProcess rank = ranks.get(event.rank);
        if (event.ending != null) {
            rank.ending = event.ending;
            if (rank.failed == null) {
                rank.failed = ncclTimeout(event.ending);
            }
        } else if (event.message instanceof RankWorker.Loaded) {
            rank.loaded = true;
        } else if (event.message instanceof RankWorker.Value value) {
            rank.value = value;
        } else if (event.message instanceof RankWorker.Failed failed) {
            if (rank.failed == null) {
                rank.failed = failed;
                rank.lastCalls = failed.lastCalls();
            }
        } else if (event.message instanceof RankWorker.CurrentLocation current) {
            rank.location = current.location();
            rank.lastCalls = current.lastCalls();
        } else if (event.message instanceof RankWorker.Alive alive
                && !alive.lastCall().isEmpty()) {
            rank.lastCalls = List.of(alive.lastCall());
        }
    }

    /**
     * Returns the failure behind an abort by c10d's NCCL watchdog, which is caused by another rank; null if the process
     * ended for another reason.
     */
    static RankWorker.Failed ncclTimeout(ChildJvm.Ending ending) {
        return ending.lastLines().stream()
                .filter(line -> ending.exitCode() == SIGNAL + ABORT && line.contains(NCCL_TIMEOUT))
                .findFirst()
                .map(line -> line.substring(line.indexOf(NCCL_TIMEOUT)))
                .map(line -> new RankWorker.Failed(line, "", true, true, List.of()))
                .orElse(null);
    }

    private RankFailure notLoaded(RankProcess rank, Duration limit) {
        String others = ranks.stream()
                .filter(other -> other != rank && isAwaited(other))
                .map(other -> String.valueOf(other.number))
                .collect(Collectors.joining(", "));
        return new RankFailure(
                rank.number,
                size,
                "native libraries not loaded within " + Rendezvous.text(limit)
                        + (others.isEmpty() ? "" : ", nor by rank " + others) + "; raise the loading timeout");
    }

    private RankFailure silent(RankProcess rank, Duration silence) throws InterruptedException {
        collectReports();
        return new RankFailure(
                rank.number,
                size,
                "no heartbeat for " + Rendezvous.text(silence) + "; it " + status(rank) + "; raise the timeout");
    }

    /** Collects the reports of all ranks and names the most likely cause. */
    private RankFailure failure() throws InterruptedException {
        collectReports();
        for (RankProcess rank : ranks) {
            if (rank.isLost()) {
                return lost(rank);
            }
        }
        for (RankProcess rank : ranks) {
            if (rank.failed != null && !rank.failed.amongRanks()) {
                return new RankFailure(rank.number, size, rank.failed.message());
            }
        }
        RankProcess witness =
                ranks.stream().filter(rank -> rank.failed != null).findFirst().orElseThrow();
        List<RankProcess> running =
                ranks.stream().filter(rank -> !rank.isOver()).toList();
        if (!running.isEmpty()) {
            RankProcess rank = running.stream()
                    .filter(r -> !status(r).startsWith(ProcessGroup.BLOCKED)) // like the witness, it may be a victim
                    .findFirst()
                    .orElse(running.get(0));
            String report = "rank " + witness.number + " reports: " + witness.failed.reason();
            return new RankFailure(rank.number, size, "it " + status(rank) + "; " + report);
        }
        return new RankFailure(witness.number, size, witness.failed.reason());
    }

    private void collectReports() throws InterruptedException {
        if (jobIsSent) { // before that, a rank would mistake the question for its job
            for (RankProcess rank : ranks) {
                if (!rank.isOver()) {
                    rank.tell(RankWorker.WHERE);
                }
            }
        }
        collectReportsUntil(() -> ranks.stream().allMatch(RankProcess::isOver));
    }

    private void collectReportsUntil(BooleanSupplier complete) throws InterruptedException {
        long end = System.nanoTime() + REPORT_TIME.toNanos();
        while (!complete.getAsBoolean()) {
            RankEvent event = events.poll(end - System.nanoTime(), TimeUnit.NANOSECONDS);
            if (event == null) {
                return;
            }
            update(event);
        }
    }

    private static String status(RankProcess rank) {
        return rank.location == null ? "does not respond" : rank.location;
    }

    /** Describes the end of a process. */
    static String end(ChildJvm.Ending ending) {
        int code = ending.exitCode();
        String crash = crash(ending.lastLines());
        if (crash != null) {
            return crash;
        }
        for (String line : ending.lastLines()) {
            if (code != SIGNAL + KILL && Status.isOutOfMemory(line)) {
                return RankWorker.OUT_OF_MEMORY + line.strip();
            }
        }
        if (code <= SIGNAL) {
            return "its process ended with exit code " + code;
        }
        return "its process was ended by signal " + (code - SIGNAL)
                + (code == SIGNAL + KILL ? " (SIGKILL: by a user, or by the kernel when out of memory)" : "");
    }

    private RankFailure lost(RankProcess rank) {
        List<String> lastLines = rank.ending.lastLines().stream()
                .filter(RankProcesses::isRelevant)
                .toList();
        // Gloo aborts on a message of unexpected size, which the reports of the other ranks explain.
        String others = rank.ending.exitCode() == SIGNAL + ABORT ? others(rank) : "";
        return new RankFailure(
                rank.number,
                size,
                end(rank.ending) + others + (lastLines.isEmpty() ? "" : "\n" + String.join("\n", lastLines)));
    }

    /** Describes the signal, such as SIGSEGV, that a JVM has reported in its last output; null if it reported none. */
    private static String crash(List<String> lastLines) {
        Matcher signal = CRASH.matcher(String.join("\n", lastLines));
        return signal.find()
                ? "its process was ended by signal " + Integer.parseInt(signal.group(2), HEXADECIMAL) + " ("
                        + signal.group(1) + " in native code)"
                : null;
    }

    private String others(RankProcess lost) {
        return ranks.stream()
                .filter(rank -> rank != lost && (rank.failed != null || rank.location != null))
                .map(rank ->
                        ". Rank " + rank.number + ": " + (rank.failed != null ? rank.failed.reason() : rank.location))
                .collect(Collectors.joining());
    }

    /** Ends all processes that are still running. */
    @Override
    public void close() {
        for (RankProcess rank : ranks) {
            if (rank.jvm != null) {
                rank.jvm.close();
            }
        }
    }
}
