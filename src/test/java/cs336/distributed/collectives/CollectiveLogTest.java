package cs336.distributed.collectives;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cs336.torch.MemoryScope;
import cs336.torch.ScopedTest;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CollectiveLogTest extends ScopedTest {
    private static final CollectiveCall SMALL = CollectiveCall.of("all-reduce (sum)", torch.zeros(2));
    private static final CollectiveCall LARGE = CollectiveCall.of("all-reduce (sum)", torch.zeros(3));
    private static final CollectiveCall GATHER = CollectiveCall.of("all-gather", torch.zeros(2));

    @TempDir
    Path folder;

    private int stores;

    private long fingerprint(List<CollectiveCall> calls) {
        Path store = folder.resolve("store" + stores++);
        try (var rendezvous = Rendezvous.inFile(World.local(0, 1, 1), Duration.ofSeconds(10), store)) {
            var log = new CollectiveLog(rendezvous, new CollectiveLog.RecentCalls());
            calls.forEach(log::record);
            assertEquals(calls.size(), log.count());
            return log.fingerprint();
        }
    }

    @Test
    void callsInAnotherOrderHaveAnotherFingerprint() {
        List<CollectiveCall> kinds = List.of(SMALL, LARGE, GATHER);
        Set<Long> fingerprints = new HashSet<>();
        int sequences = 0;
        for (CollectiveCall first : kinds) {
            for (CollectiveCall second : kinds) {
                for (CollectiveCall third : kinds) {
                    fingerprints.add(fingerprint(List.of(first, second, third)));
                    sequences++;
                }
            }
        }
        assertEquals(sequences, fingerprints.size());
        List<CollectiveCall> again = new ArrayList<>(kinds);
        assertEquals(fingerprint(kinds), fingerprint(again));
        again.add(SMALL);
        assertNotEquals(fingerprint(kinds), fingerprint(again));
    }

    @Test
    void ranksCompareACallThatFollowsAnotherForTheFirstTime() throws Exception {
        Path store = folder.resolve("store");
        var other = CompletableFuture.supplyAsync(() -> failure(1, store, LARGE));
        assertEquals("collective 4 is " + SMALL + " on rank 0, but " + LARGE + " on rank 1", failure(0, store, SMALL));
        assertEquals("collective 4 is " + LARGE + " on rank 1, but " + SMALL + " on rank 0", other.get());
    }

    /** Returns the failure of a call after LARGE, which both ranks have made before, but in another order. */
    private static String failure(int rank, Path store, CollectiveCall last) {
        try (var scope = MemoryScope.open();
                var rendezvous = Rendezvous.inFile(World.local(rank, 2, 1), Duration.ofSeconds(20), store)) {
            var log = new CollectiveLog(rendezvous, new CollectiveLog.RecentCalls());
            List.of(SMALL, SMALL, LARGE).forEach(log::record);
            return assertThrows(CollectiveFailure.class, () -> log.record(last)).getMessage();
        }
    }

    @Test
    void aRankThatNeedNotCompareACallAnswersBeforeTheTimeout() throws Exception {
        Path store = folder.resolve("store");
        var failed = new CountDownLatch(1);
        var other = CompletableFuture.runAsync(() -> {
            try (var rendezvous = Rendezvous.inFile(World.local(0, 2, 1), Duration.ofSeconds(20), store)) {
                var log = new CollectiveLog(rendezvous, new CollectiveLog.RecentCalls());
                try (var answers = new CallAnswers(rendezvous, log)) {
                    List.of(SMALL, LARGE, SMALL, LARGE, SMALL).forEach(log::record); // LARGE, SMALL is known
                    failed.await();
                }
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        });
        try (var rendezvous = Rendezvous.inFile(World.local(1, 2, 1), Duration.ofSeconds(20), store)) {
            var log = new CollectiveLog(rendezvous, new CollectiveLog.RecentCalls());
            List.of(SMALL, LARGE, SMALL, LARGE).forEach(log::record);
            var failure = assertThrows(CollectiveFailure.class, () -> log.record(LARGE));
            assertEquals("collective 5 is " + LARGE + " on rank 1, but " + SMALL + " on rank 0", failure.getMessage());
        } finally {
            failed.countDown();
        }
        other.get();
    }

    /** Each rank keeps only its last calls, whose numbers follow from the count. */
    @Test
    void afterManyCallsTheDifferentOneIsNamedWithItsNumber() throws Exception {
        Path store = folder.resolve("store");
        var other = CompletableFuture.supplyAsync(() -> difference(1, store, LARGE));
        String difference = difference(0, store, SMALL);
        assertEquals("; collective 301 is " + SMALL + " on rank 0, but " + LARGE + " on rank 1", difference);
        assertEquals("; collective 301 is " + LARGE + " on rank 1, but " + SMALL + " on rank 0", other.get());
    }

    private static String difference(int rank, Path store, CollectiveCall last) {
        try (var scope = MemoryScope.open();
                var rendezvous = Rendezvous.inFile(World.local(rank, 2, 1), Duration.ofSeconds(20), store)) {
            var log = new CollectiveLog(rendezvous, new CollectiveLog.RecentCalls());
            for (int i = 0; i < 300; i++) {
                log.record(i % 4 < 2 ? SMALL : LARGE); // each follows each, so ranks compare no further ones
            }
            log.record(last);
            return log.difference();
        }
    }
}
