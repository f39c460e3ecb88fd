package cs336.distributed.launch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import cs336.bench.ChildJvm;
import java.util.List;
import org.junit.jupiter.api.Test;

class RankProcessesTest {
    private static final String OUT_OF_MEMORY = "CUDA out of memory. Tried to allocate 2 GiB";
    private static final String TIMEOUT = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)";

    private static ChildJvm.Ending ending(int exitCode, String... lines) {
        return new ChildJvm.Ending(exitCode, false, List.of(lines));
    }

    @Test
    void theEndOfAProcessIsDescribed() {
        assertEquals("its process ended with exit code 3", RankProcesses.end(ending(3, "some line")));
        assertEquals("its process ended with exit code 128", RankProcesses.end(ending(128)));
        assertEquals("its process was ended by signal 15", RankProcesses.end(ending(143)));
        assertEquals("out of memory: " + OUT_OF_MEMORY, RankProcesses.end(ending(3, "some line", OUT_OF_MEMORY + " ")));
        String killed = "its process was ended by signal 9 (SIGKILL: by a user, or by the kernel when out of memory)";
        assertEquals(killed, RankProcesses.end(ending(137)));
        assertEquals(killed, RankProcesses.end(ending(137, OUT_OF_MEMORY))); // from which the rank had recovered
    }

    @Test
    void onlyAnAbortIsATimeoutOfNccl() {
        assertEquals(
                TIMEOUT,
                RankProcesses.ncclTimeout(ending(134, "some line", "[rank1] " + TIMEOUT))
                        .reason());
        assertNull(RankProcesses.ncclTimeout(ending(134, "some line")));
        assertNull(RankProcesses.ncclTimeout(ending(137, TIMEOUT)));
    }
}
