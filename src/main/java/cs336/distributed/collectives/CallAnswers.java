package cs336.distributed.collectives;

import cs336.torch.MemoryScope;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.bytedeco.pytorch.ByteVector;
import org.bytedeco.pytorch.Store;
import org.bytedeco.pytorch.StringVector;

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
    private final Store store;
    private final Thread thread = new Thread(this::run, "call answers");

    /** Starts the thread. */
    CallAnswers(Rendezvous rendezvous, CollectiveLog calls) {
        rank = rendezvous.world().rank();
        this.calls = calls;
        store = rendezvous.connection();
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
            if (!store.check(new StringVector(ASKED))) {
                return answered;
            }
            long number = Long.parseLong(new String(store.get(ASKED).get(), StandardCharsets.UTF_8));
            String call = number == answered ? null : calls.earlier(number);
            if (call == null) {
                return answered;
            }
            String key = Rendezvous.key(CollectiveLog.first(number), rank);
            store.set(key, new ByteVector(call.getBytes(StandardCharsets.UTF_8)));
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
        try {
            thread.join(LONGEST_REQUEST.toMillis());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        if (!thread.isAlive()) {
            store.close();
        }
    }
}
