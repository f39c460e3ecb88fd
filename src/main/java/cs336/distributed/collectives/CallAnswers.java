package cs336.distributed.collectives;

import cs336.torch.MemoryScope;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * A background thread that tells other ranks a call of this rank. It answers ranks that compare a call by
 * {@link CollectiveLog}, while this rank has no reason to compare it and is blocked in another one.
 */
final class CallAnswers implements AutoCloseable {
    private static final String ASKED = "asked";
    private static final Duration INTERVAL = Duration.ofSeconds(1);
    private static final Duration LONGEST_REQUEST = Duration.ofSeconds(3);

    private final int rank; // in the world
    private final CollectiveLog calls;
    private final StoreTexts store;
    private final Thread thread = new Thread(this::run, "call answers");

    /** Starts the thread. */
    CallAnswers(Rendezvous rendezvous, CollectiveLog calls) {
        rank = rendezvous.world().rank();
        this.calls = calls;
        store = new StoreTexts(rendezvous.connection());
        thread.setDaemon(true);
        thread.start();
    }

    /** Asks all ranks for the call with this number. */
    static void ask(Rendezvous rendezvous, long number) {
        rendezvous.publish(ASKED, String.valueOf(number));
    }

    private void run() {
        long answered = 0;
        try {
            while (true) {
                TimeUnit.NANOSECONDS.sleep(INTERVAL.toNanos());
                answered = answer(answered);
            }
        } catch (InterruptedException | RuntimeException e) {
            // The group is closed, or rank 0, which hosts the store, has ended.
        }
    }

    /** Answers the last question if this rank has made the call, and returns its number. */
    private long answer(long answered) {
        try (var scope = MemoryScope.open()) {
            if (!store.has(ASKED)) {
                return answered;
            }
            long number = Long.parseLong(store.get(ASKED));
            String call = number == answered ? null : calls.earlier(number);
            if (call == null) {
                return answered;
            }
            store.set(Rendezvous.key(CollectiveLog.first(number), rank), call);
            return number;
        }
    }

    /** Lets the thread end, without waiting for it. */
    void stop() {
        thread.interrupt();
    }

    /** Ends the thread. */
    @Override
    public void close() {
        stop();
        store.closeAfter(thread, LONGEST_REQUEST);
    }
}
