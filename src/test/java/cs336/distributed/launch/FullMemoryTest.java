package cs336.distributed.launch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.distributed.collectives.ProcessGroup;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A rank that runs out of memory is named with this reason. */
@Timeout(300)
class FullMemoryTest {
    private static final Map<String, String> SMALL_HEAP = Map.of("JAVA_TOOL_OPTIONS", "-Xmx40m -XX:+UseSerialGC");

    /** Fills the memory of rank 1 as its argument says, while rank 0 waits for it. */
    public static final class FillsMemory implements RankProgram<String, Integer> {
        private static Object[] reachable;

        @Override
        public Integer run(ProcessGroup group, String what) {
            group.barrier();
            if (group.rank() == 1) {
                switch (what) {
                    case "the heap" -> fillHeap();
                    case "native memory" -> torch.ones(1L << 50);
                    case "a GPU" ->
                        throw new RuntimeException("CUDA out of memory. Tried to allocate 20 GiB.\nframe #0");
                    case "the process" -> {
                        System.err.println("terminate called after throwing an instance of 'std::bad_alloc'");
                        Runtime.getRuntime().halt(134);
                    }
                    default -> throw new AssertionError(what);
                }
            }
            group.barrier();
            return 0;
        }

        /** Leaves no room for a single object, in contrast to a large array that does not fit. */
        private static void fillHeap() {
            while (true) {
                reachable = new Object[] {reachable};
            }
        }
    }

    private static String failure(String what) {
        var launcher = Launcher.of(2).timeout(Duration.ofSeconds(20)).environment(rank -> SMALL_HEAP);
        var e = assertThrows(RankFailure.class, () -> launcher.run(FillsMemory.class, what));
        assertEquals(1, e.rank());
        try {
            Files.delete(e.report());
        } catch (IOException cannotDelete) {
            throw new UncheckedIOException(cannotDelete);
        }
        return e.getMessage();
    }

    @Test
    void aRankThatRunsOutOfMemoryIsNamedAsThat() {
        List<CompletableFuture<String>> failures = Stream.of("the heap", "native memory", "a GPU", "the process")
                .map(what -> CompletableFuture.supplyAsync(() -> failure(what), task -> new Thread(task).start()))
                .toList();
        List<String> messages = failures.stream().map(CompletableFuture::join).toList();
        assertEquals("rank 1 of 2: out of memory: Java heap space", messages.get(0));
        assertTrue(
                messages.get(1)
                        .matches(
                                "rank 1 of 2: out of memory: .*DefaultCPUAllocator: can't allocate memory: you tried to"
                                        + " allocate 4503599627370496 bytes.*"),
                messages.get(1));
        assertEquals("rank 1 of 2: out of memory: CUDA out of memory. Tried to allocate 20 GiB.", messages.get(2));
        assertTrue(
                messages.get(3)
                        .startsWith("rank 1 of 2: out of memory: terminate called after throwing an instance of"
                                + " 'std::bad_alloc'"),
                messages.get(3));
    }
}
