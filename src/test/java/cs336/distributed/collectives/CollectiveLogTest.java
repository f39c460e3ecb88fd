package cs336.distributed.collectives;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import cs336.torch.ScopedTest;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
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
}
