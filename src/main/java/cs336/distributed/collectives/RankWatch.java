package cs336.distributed.collectives;

import cs336.torch.MemoryScope;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * The heartbeats and failure reports of ranks that no common launcher watches, such as those of torchrun and Slurm. All
 * ranks learn which rank failed first, and why.
 *
 * <p>A background thread of each rank increments a counter in the rendezvous store, whatever the rank computes. A rank
 * that fails independently of the others posts its reason. A rank whose collective fails waits for such a post; if
 * there is none, it names a rank whose heartbeat has stopped, or else one that is not in a collective. Rank 0 hosts the
 * store, and therefore stays until the other ranks know the first failure.
 */
public final class RankWatch implements AutoCloseable {
    private static final Duration INTERVAL = Duration.ofMillis(500);
    private static final Duration INTERVAL_AFTER_FAILURE = Duration.ofMillis(50);

    /** Time without a heartbeat after which a rank is lost. */
    private static final Duration LOST_AFTER = Duration.ofSeconds(3);

    /** Longest time that rank 0 hosts the store after a failure, for ranks that do not read it. */
    private static final Duration LINGER = Duration.ofSeconds(3);

    /** Time after which the store is considered unreachable. */
    private static final Duration LIMIT = LOST_AFTER.plus(LINGER).plus(Duration.ofSeconds(2));

    private static final String ALARM = "watch/alarm";
    private static final String FIRST = "watch/first";
    private static final String BEAT = "watch/beat";
    private static final String VICTIM = "watch/victim";
    private static final String LOCATION = "watch/location";
    private static final String INFORMED = "watch/informed";

    private final World world;
    private final StoreTexts store;
    private final Supplier<String> location;
    private final Thread thread;
    private boolean stopped;
    private OwnFailure own; // null before this rank has failed
    private FirstFailure first; // null as long as it is unknown
    private boolean othersKnow;

    // Used by the thread only:
    private long beat;
    private boolean located;
    private boolean posted;
    private boolean informed;
    private long judgedAt;
    private long lingersUntil;
    private List<String> beats;

    /**
     * The first failure of a run.
     *
     * @param rank the rank that failed
     * @param reason one line
     */
    public record FirstFailure(int rank, String reason) {}

    private record OwnFailure(String reason, boolean amongRanks) {}

    /**
     * Starts the heartbeat.
     *
     * @param location describes what this rank does, as in {@code is at Line (File.java:1)}; called on another thread
     */
    RankWatch(Rendezvous rendezvous, Supplier<String> location) {
        world = rendezvous.world();
        store = new StoreTexts(rendezvous.connection());
        this.location = location;
        thread = new Thread(this::run, "rank watch");
        thread.setDaemon(true);
        thread.start();
    }

    /**
     * Reports a failure of this rank and waits, for at most a few seconds, until the first failure of the run is known.
     * Afterwards this rank has no heartbeat and should end.
     *
     * @param reason the reason of the failure; only its first line is published
     * @param amongRanks whether another rank may be the cause
     * @return the first failure, which may be this one
     */
    public synchronized FirstFailure report(String reason, boolean amongRanks) throws InterruptedException {
        own = new OwnFailure(reason.lines().findFirst().orElse(""), amongRanks);
        notifyAll();
        long end = System.nanoTime() + LIMIT.toNanos();
        while ((first == null || !othersKnow) && thread.isAlive() && System.nanoTime() < end) {
            TimeUnit.NANOSECONDS.timedWait(this, end - System.nanoTime());
        }
        stopped = true;
        notifyAll();
        return first == null ? hostIsLost() : first;
    }

    private synchronized FirstFailure hostIsLost() {
        boolean isByAgent = Rendezvous.isHostedByTorchrun();
        if (own != null && (!own.amongRanks || isByAgent || world.rank() == 0)) {
            return new FirstFailure(world.rank(), own.reason);
        }
        return isByAgent
                ? new FirstFailure(world.rank(), "torchrun's agent, which hosts the store, does not respond")
                : new FirstFailure(0, "its process, which hosts the store, has ended or does not respond");
    }

    private void run() {
        while (true) {
            OwnFailure failure;
            synchronized (this) {
                if (stopped) {
                    return;
                }
                failure = own;
            }
            try (var scope = MemoryScope.open()) {
                set(BEAT, String.valueOf(++beat));
                if (failure != null) {
                    afterOwn(failure);
                } else if (store.has(ALARM)) {
                    afterAlarm();
                }
            } catch (RuntimeException e) { // rank 0 has ended
                know(hostIsLost(), true);
                return;
            }
            pause();
        }
    }

    private synchronized void pause() {
        boolean hurries = own != null || located;
        if (!stopped) {
            try {
                TimeUnit.NANOSECONDS.timedWait(this, (hurries ? INTERVAL_AFTER_FAILURE : INTERVAL).toNanos());
            } catch (InterruptedException e) {
                stopped = true;
            }
        }
    }

    private void afterAlarm() {
        if (!located) {
            located = true;
            set(LOCATION, location.get());
        }
        readFirst();
    }

    private void afterOwn(OwnFailure failure) {
        long now = System.nanoTime();
        if (!posted) {
            posted = true;
            if (failure.amongRanks) {
                set(VICTIM, "");
                beats = beats();
            } else {
                claim(new FirstFailure(world.rank(), failure.reason));
            }
            store.set(ALARM, "");
            judgedAt = now + LOST_AFTER.toNanos();
            lingersUntil = judgedAt + LINGER.toNanos();
        }
        if (!readFirst() && failure.amongRanks && now >= judgedAt) {
            claim(suspect(failure));
            readFirst();
        }
        if (informed && (world.rank() > 0 || now >= lingersUntil || allInformed())) {
            know(first, true);
        }
    }

    /**
     * Publishes a failure, unless another rank has published one, in one request: this rank may be killed at any time.
     */
    private void claim(FirstFailure failure) {
        store.setFirst(FIRST, failure.rank + "\n" + failure.reason);
    }

    /** Reads the first failure and returns whether there is one. */
    private boolean readFirst() {
        if (!informed && store.has(FIRST)) {
            informed = true;
            String[] lines = store.get(FIRST).split("\n", 2);
            know(new FirstFailure(Integer.parseInt(lines[0]), lines[1]), false);
            set(INFORMED, "");
        }
        return informed;
    }

    private synchronized void know(FirstFailure failure, boolean everywhere) {
        first = first == null ? failure : first;
        othersKnow |= everywhere;
        notifyAll();
    }

    private boolean allInformed() {
        for (int rank = 0; rank < world.size(); rank++) {
            if (rank != first.rank && !store.has(Rendezvous.key(INFORMED, rank))) {
                return false;
            }
        }
        return true;
    }

    /** Returns the most likely first failure, if no rank has published one. */
    private FirstFailure suspect(OwnFailure failure) {
        List<String> now = beats();
        var others = new ArrayList<Integer>();
        for (int rank = 0; rank < world.size(); rank++) {
            if (rank != world.rank() && !store.has(Rendezvous.key(VICTIM, rank))) {
                others.add(rank);
            }
        }
        for (int rank : others) {
            if (now.get(rank).equals(beats.get(rank)) && !store.has(Rendezvous.key(LOCATION, rank))) {
                return new FirstFailure(rank, "its process has ended or does not respond");
            }
        }
        String report = "; rank " + world.rank() + " reports: " + failure.reason;
        for (int rank : others) {
            String where = store.has(Rendezvous.key(LOCATION, rank))
                    ? store.get(Rendezvous.key(LOCATION, rank))
                    : "does not respond";
            if (!where.startsWith(ProcessGroup.BLOCKED)) {
                return new FirstFailure(rank, "it " + where + report);
            }
        }
        return new FirstFailure(world.rank(), failure.reason);
    }

    private List<String> beats() {
        var found = new ArrayList<String>();
        for (int rank = 0; rank < world.size(); rank++) {
            found.add(store.has(Rendezvous.key(BEAT, rank)) ? store.get(Rendezvous.key(BEAT, rank)) : "");
        }
        return found;
    }

    private void set(String name, String text) {
        store.set(Rendezvous.key(name, world.rank()), text);
    }

    /** Stops the heartbeat. */
    @Override
    public void close() {
        synchronized (this) {
            stopped = true;
            notifyAll();
        }
        store.closeAfter(thread, LOST_AFTER);
    }
}
