package cs336.distributed.launch;

import cs336.bench.ChildJvm;
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
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;

/** The processes of all ranks, followed until each has given its value or one has failed. Closing it ends them. */
final class RankProcesses implements AutoCloseable {
    /** What a collective that is too late has for its own message, before its rank counts as silent. */
    private static final Duration MARGIN = Duration.ofSeconds(2);

    /** For other ranks to say what they saw of a failure. The first to say something is seldom the cause. */
    private static final Duration GATHERING = Duration.ofMillis(1500);

    private static final String NCCL_TIMEOUT = "Watchdog caught collective operation timeout";

    private static final int SIGNAL = 128;
    private static final int KILL = 9;
    private static final int ABORT = 6;

    private final int size;
    private final Duration timeout;
    private final Duration loadingTimeout;
    private final PrintStream output;
    private final List<RankProcess> ranks = new ArrayList<>();
    private final BlockingQueue<RankEvent> events = new LinkedBlockingQueue<>();
    private boolean jobIsGiven;

    RankProcesses(int size, Duration timeout, Duration loadingTimeout, PrintStream output) {
        this.size = size;
        this.timeout = timeout;
        this.loadingTimeout = loadingTimeout;
        this.output = output;
    }

    /** Something a rank said, or how its process ended. */
    private record RankEvent(int rank, RankWorker.RankMessage answer, ChildJvm.Ending ending) {}

    /** What is known of one rank. */
    private static final class RankProcess {
        final int number;
        final long started = System.nanoTime();
        ChildJvm jvm;
        volatile long lastSign;
        boolean loaded;
        RankWorker.Value value;
        RankWorker.Failed failed;
        ChildJvm.Ending ending;
        String place;

        RankProcess(int number) {
            this.number = number;
        }

        boolean isOver() {
            return value != null || failed != null || ending != null;
        }

        /** The process has ended without having said why. */
        boolean isLost() {
            return value == null && failed == null && ending != null;
        }
    }

    /** Starts the next rank. */
    void start(Map<String, String> variables) throws IOException {
        var rank = new RankProcess(ranks.size());
        ranks.add(rank);
        rank.jvm = ChildJvm.start(RankWorker.class, variables, line -> {
            rank.lastSign = System.nanoTime();
            if (isWorthShowing(line)) output.println("[" + rank.number + "] " + line);
        });
        var listener = new Thread(() -> listen(rank));
        listener.setDaemon(true);
        listener.start();
    }

    private static boolean isWorthShowing(String line) {
        return !line.isBlank() && !line.matches("\\[Gloo\\] Rank .*|Picked up JAVA_TOOL_OPTIONS.*");
    }

    private void listen(RankProcess rank) {
        try {
            for (String line; (line = rank.jvm.answer(null)) != null; ) {
                rank.lastSign = System.nanoTime();
                events.add(new RankEvent(rank.number, Serialization.ofLine(line), null));
            }
            events.add(new RankEvent(rank.number, null, rank.jvm.end()));
        } catch (InterruptedException e) {
            // Nobody interrupts it.
        }
    }

    /**
     * Gives all ranks their job, once all have loaded what they need, so that none waits for another's unpacking.
     *
     * @return what each gave, by rank
     * @throws RankFailure if one failed
     */
    <R extends Serializable> List<R> run(String job) throws InterruptedException {
        while (!ranks.stream().allMatch(rank -> rank.loaded)) follow(loadingTimeout);
        jobIsGiven = true;
        ranks.forEach(rank -> {
            rank.lastSign = System.nanoTime();
            rank.jvm.tell(job);
        });
        while (!ranks.stream().allMatch(rank -> rank.value != null)) follow(timeout.plus(MARGIN));
        gatherUntil(() -> ranks.stream().allMatch(rank -> rank.ending != null)); // and what they print last
        var values = new ArrayList<R>();
        for (RankProcess rank : ranks) values.add(Serialization.value(rank.value.value()));
        return values;
    }

    /** Takes the next event, or finds that one is overdue. */
    private void follow(Duration limit) throws InterruptedException {
        long now = System.nanoTime();
        long left = limit.toNanos();
        for (RankProcess rank : ranks) {
            if (isAwaited(rank)) left = Math.min(left, awaitedSince(rank) + limit.toNanos() - now);
        }
        RankEvent event = events.poll(Math.max(0, left), TimeUnit.NANOSECONDS);
        if (event == null) {
            for (RankProcess rank : ranks) {
                if (isAwaited(rank) && System.nanoTime() - awaitedSince(rank) >= limit.toNanos())
                    throw jobIsGiven ? silent(rank, limit) : notLoaded(rank, limit);
            }
            return;
        }
        note(event);
        if (ranks.stream().anyMatch(rank -> rank.failed != null || rank.isLost())) throw failure();
    }

    /** One that has loaded waits for the others itself. */
    private boolean isAwaited(RankProcess rank) {
        return !rank.isOver() && (jobIsGiven || !rank.loaded);
    }

    private long awaitedSince(RankProcess rank) {
        return jobIsGiven ? rank.lastSign : rank.started;
    }

    private void note(RankEvent event) {
        RankProcess rank = ranks.get(event.rank);
        if (event.ending != null) {
            rank.ending = event.ending;
            if (rank.failed == null) rank.failed = timeout(event.ending);
        } else if (event.answer instanceof RankWorker.Loaded) {
            rank.loaded = true;
        } else if (event.answer instanceof RankWorker.Value value) {
            rank.value = value;
        } else if (event.answer instanceof RankWorker.Failed failed) {
            if (rank.failed == null) rank.failed = failed;
        } else if (event.answer instanceof RankWorker.At at) {
            rank.place = at.place();
        }
    }

    /** PyTorch ends a process whose card waits for a collective too long; what it waits for is not its own fault. */
    private static RankWorker.Failed timeout(ChildJvm.Ending ending) {
        return ending.said().stream()
                .filter(line -> ending.exitCode() == SIGNAL + ABORT && line.contains(NCCL_TIMEOUT))
                .findFirst()
                .map(line -> line.substring(line.indexOf(NCCL_TIMEOUT)))
                .map(line -> new RankWorker.Failed(line, "", true))
                .orElse(null);
    }

    private RankFailure notLoaded(RankProcess rank, Duration limit) {
        return new RankFailure(
                rank.number,
                size,
                "its native libraries are not loaded after " + Rendezvous.text(limit)
                        + ". A longer loading timeout lets it go on");
    }

    private RankFailure silent(RankProcess rank, Duration silence) throws InterruptedException {
        gather();
        return new RankFailure(
                rank.number,
                size,
                "no sign of life for " + Rendezvous.text(silence) + ": neither a collective nor a line printed; it "
                        + whereabouts(rank) + ". A longer timeout lets it work on");
    }

    /** Hears what the others have seen, and names the rank that is the likeliest cause. */
    private RankFailure failure() throws InterruptedException {
        gather();
        for (RankProcess rank : ranks) if (rank.isLost()) return lost(rank);
        for (RankProcess rank : ranks) {
            if (rank.failed != null && !rank.failed.amongRanks()) {
                return new RankFailure(rank.number, size, rank.failed.reason() + "\n" + rank.failed.trace());
            }
        }
        RankProcess witness =
                ranks.stream().filter(rank -> rank.failed != null).findFirst().orElseThrow();
        for (RankProcess rank : ranks) {
            if (!rank.isOver()) {
                String missed = witness.failed.reason() + ", as rank " + witness.number + " says";
                return new RankFailure(rank.number, size, "it " + whereabouts(rank) + ". " + missed);
            }
        }
        return new RankFailure(witness.number, size, witness.failed.reason());
    }

    private void gather() throws InterruptedException {
        if (jobIsGiven) { // before, a rank would take the question for its job
            for (RankProcess rank : ranks) if (!rank.isOver()) rank.jvm.tell(RankWorker.WHERE);
        }
        gatherUntil(() -> ranks.stream().allMatch(RankProcess::isOver));
    }

    private void gatherUntil(BooleanSupplier complete) throws InterruptedException {
        long end = System.nanoTime() + GATHERING.toNanos();
        while (!complete.getAsBoolean()) {
            RankEvent event = events.poll(end - System.nanoTime(), TimeUnit.NANOSECONDS);
            if (event == null) return;
            note(event);
        }
    }

    private static String whereabouts(RankProcess rank) {
        return rank.place == null ? "gives no answer" : rank.place;
    }

    private RankFailure lost(RankProcess rank) {
        int code = rank.ending.exitCode();
        String how = code > SIGNAL
                ? "its process was ended by signal " + (code - SIGNAL)
                        + (code == SIGNAL + KILL ? " (by hand, or by Linux when memory runs out)" : "")
                : "its process ended with exit code " + code;
        List<String> said = rank.ending.said().stream()
                .filter(RankProcesses::isWorthShowing)
                .toList();
        // Gloo aborts on a message of another size than it expects, which only the other ranks can explain.
        String others = code == SIGNAL + ABORT ? others(rank) : "";
        return new RankFailure(
                rank.number, size, how + others + (said.isEmpty() ? "" : "\n" + String.join("\n", said)));
    }

    private String others(RankProcess lost) {
        return ranks.stream()
                .filter(rank -> rank != lost && (rank.failed != null || rank.place != null))
                .map(rank -> ". Rank " + rank.number + ": " + (rank.failed != null ? rank.failed.reason() : rank.place))
                .collect(Collectors.joining());
    }

    /** Ends all processes that still run. */
    @Override
    public void close() {
        for (RankProcess rank : ranks) if (rank.jvm != null) rank.jvm.close();
    }
}
