package cs336.distributed.collectives;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import org.bytedeco.pytorch.ByteVector;
import org.bytedeco.pytorch.Store;
import org.bytedeco.pytorch.StringVector;

/** Texts in a rendezvous store. Each method sends one request to the store, and throws if the store has ended. */
record StoreTexts(Store store) {
    boolean has(String key) {
        return store.check(new StringVector(key));
    }

    /** Returns the text with this key; waits for it if there is none. */
    String get(String key) {
        return new String(store.get(key).get(), StandardCharsets.UTF_8);
    }

    void set(String key, String text) {
        store.set(key, bytes(text));
    }

    /** Sets a text unless there is one with this key. */
    void setFirst(String key, String text) {
        store.compareSet(key, new ByteVector(), bytes(text));
    }

    private static ByteVector bytes(String text) {
        return new ByteVector(text.getBytes(StandardCharsets.UTF_8));
    }

    /** Closes the connection of a background thread when the thread has ended; not if it does not end in time. */
    void closeAfter(Thread thread, Duration limit) {
        try {
            thread.join(limit.toMillis());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        if (!thread.isAlive()) {
            store.close();
        }
    }
}
