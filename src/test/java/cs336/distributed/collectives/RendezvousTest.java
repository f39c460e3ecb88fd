package cs336.distributed.collectives;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.TestJvm;
import cs336.torch.Torch;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import org.bytedeco.pytorch.TCPStore;
import org.bytedeco.pytorch.TCPStoreOptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RendezvousTest {
    @TempDir
    private Path folder;

    /** Each rank calls its first collective within the timeout of the rank before it, but not of the first one. */
    @Test
    void theTimeoutOfAFirstCallCountsOnce() throws Exception {
        Duration timeout = Duration.ofSeconds(1);
        var joined = new CyclicBarrier(3);
        var pool = Executors.newCachedThreadPool();
        List<Future<String>> messages = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            int rank = i;
            messages.add(pool.submit(() -> {
                ProcessGroup group = ProcessGroup.join(
                        World.local(rank, 3, 29_500), CollectiveBackend.GLOO, timeout, folder.resolve("store"));
                joined.await();
                Thread.sleep(800L * rank);
                try {
                    group.barrier();
                    return "";
                } catch (CollectiveFailure e) {
                    return e.getMessage();
                } finally {
                    group.abandon();
                }
            }));
        }
        String first = messages.get(0).get();
        assertTrue(first.startsWith("rank 2 did not call collective 1, barrier"), first);
        pool.shutdown();
    }

    /** Rank 1 registers and ends before it connects. */
    @Test
    void aRankThatEndsBeforeItConnectsIsNamed() throws Exception {
        Duration timeout = Duration.ofSeconds(2);
        var ends = new FutureTask<>(() -> Rendezvous.inFile(World.local(1, 2, 29_500), timeout, folder.resolve("store"))
                .register("host cpu"));
        new Thread(ends).start();
        String message = assertThrows(
                        CollectiveFailure.class,
                        () -> ProcessGroup.join(
                                World.local(0, 2, 29_500), CollectiveBackend.GLOO, timeout, folder.resolve("store")))
                .getMessage();
        assertTrue(message.endsWith("; no report from ranks [1]"), message);
        ends.get();
    }

    @Test
    void theFirstFailureIsPublishedAndNotReplaced() throws Exception {
        RankWatch.FirstFailure first = new RankWatch.FirstFailure(1, "out of milk");
        assertEquals(first, report(1, "out of milk"));
        assertEquals(first, report(0, "out of bread"));
    }

    private RankWatch.FirstFailure report(int rank, String reason) throws InterruptedException {
        var rendezvous =
                Rendezvous.inFile(World.local(rank, 2, 29_500), Duration.ofSeconds(5), folder.resolve("store"));
        try (var watch = new RankWatch(rendezvous, () -> "is at X")) {
            return watch.report(reason, false);
        }
    }

    @Test
    void anUnknownHostIsNamed() {
        var world = new World(0, 2, 0, 1, 2, "no..such.host", 29_500); // which no name server is asked for
        var e = assertThrows(CollectiveFailure.class, () -> Rendezvous.atMaster(world, Duration.ofMillis(100)));
        assertEquals("rank 0 cannot listen at no..such.host:29500: unknown host", e.getMessage());
    }

    /** By default torchrun's agent hosts the store, and rank 0 must not listen. */
    @Test
    void theStoreOfTorchrunsAgentIsUsed() throws Exception {
        Torch.load();
        try (var port = ReservedPort.any()) {
            var options = new TCPStoreOptions();
            options.port((short) port.number());
            options.isServer(true);
            options.waitWorkers(false);
            try (var agent = new TCPStore("127.0.0.1", options)) {
                var builder =
                        TestJvm.of(Joining.class, String.valueOf(port.number())).inheritIO();
                builder.environment().put("TORCHELASTIC_USE_AGENT_STORE", "True");
                assertEquals(0, builder.start().waitFor());
            }
        }
    }

    /** Joins a group of one rank at a port. */
    static final class Joining {
        private Joining() {}

        public static void main(String[] arguments) {
            World world = World.local(0, 1, Integer.parseInt(arguments[0]));
            try (var group = ProcessGroup.join(world, CollectiveBackend.GLOO, Duration.ofSeconds(10))) {
                group.barrier();
            }
        }
    }

    /** Longer than the limit that a request has in a run with a short timeout. */
    @Test
    void aStoreThatStallsForSecondsDoesNotEndARunWithALongTimeout() throws Exception {
        Path store = folder.resolve("store");
        try (var rendezvous = Rendezvous.inFile(World.local(0, 1, 29_500), Duration.ofSeconds(60), store)) {
            rendezvous.post("created", "");
            Process holder = new ProcessBuilder("flock", store.toString(), "sh", "-c", "echo locked; sleep 5").start();
            assertEquals('l', holder.getInputStream().read());
            long begin = System.nanoTime();
            rendezvous.post("key", "value");
            assertTrue(System.nanoTime() - begin > 3e9, "the lock did not stall the store");
            assertEquals("value", rendezvous.read("key", 0, Duration.ofSeconds(10)));
        }
    }
}
