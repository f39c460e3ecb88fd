package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MemoryStatsTest {
    private static final String[] VERSION_1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
    private static final String[] VERSION_2 = {"memory.max", "memory.current", "inactive_file"};

    private static void write(Path group, String[] names, String limit, long used, long reclaimable)
            throws IOException {
        Files.createDirectories(group);
        Files.writeString(group.resolve(names[0]), limit + "\n");
        Files.writeString(group.resolve(names[1]), used + "\n");
        Files.writeString(group.resolve("memory.stat"), "anon 7\n" + names[2] + " " + reclaimable + "\nfile 9\n");
    }

    @Test
    void theTightestControlGroupOfAJobLimitsTheFreeMemory(@TempDir Path root) throws IOException {
        write(root.resolve("slurm/job_1/step_0"), VERSION_2, "max", 300, 0);
        write(root.resolve("slurm/job_1"), VERSION_2, "1000", 800, 150);
        write(root.resolve("slurm"), VERSION_2, "5000", 4800, 199);
        List<String> groups = List.of("0::/slurm/job_1/step_0");
        assertEquals(350, MemoryStats.controlGroupFree(root, groups));
        write(root.resolve("slurm"), VERSION_2, "5000", 4800, 100);
        assertEquals(300, MemoryStats.controlGroupFree(root, groups), "the outer group leaves less");
        write(root.resolve("slurm"), VERSION_2, "5000", 5001, 0);
        assertEquals(0, MemoryStats.controlGroupFree(root, groups));
    }

    @Test
    void aContainerSeesItsOwnGroupAtTheRoot(@TempDir Path root) throws IOException {
        write(root.resolve("memory"), VERSION_1, "4096", 1000, 24);
        assertEquals(
                3120,
                MemoryStats.controlGroupFree(
                        root, List.of("5:cpu,cpuacct:/docker/1f", "4:hugetlb,memory:/docker/1f", "0::/docker/1f")));
        write(root, VERSION_2, "2048", 1000, 0);
        assertEquals(1048, MemoryStats.controlGroupFree(root, List.of("0::/")));
        assertEquals(1048, MemoryStats.controlGroupFree(root, List.of("0::/../../system.slice/other")));
    }

    @Test
    void withoutALimitMemAvailableCounts(@TempDir Path root) throws IOException {
        write(root.resolve("user"), VERSION_2, "max", 300, 0);
        assertEquals(Long.MAX_VALUE, MemoryStats.controlGroupFree(root, List.of("0::/user")));
        assertEquals(Long.MAX_VALUE, MemoryStats.controlGroupFree(root, List.of()));
        long available = MemoryStats.available(Device.cpu());
        assertTrue(available > 0 && available <= MemoryStats.total(Device.cpu()), available + " bytes");
    }

    @Test
    void anInterruptedThreadReadsMemoryToo() {
        Thread.currentThread().interrupt();
        try {
            MemoryStats.resetPeak(Device.cpu());
            assertTrue(MemoryStats.peak(Device.cpu()) > 0);
            assertTrue(MemoryStats.available(Device.cpu()) > 0);
            assertTrue(Thread.currentThread().isInterrupted());
        } finally {
            Thread.interrupted();
        }
    }

    @Test
    void killsOfAFullMemoryAreReadWhereLinuxCountsThem(@TempDir Path folder) throws IOException {
        Path vmstat = Files.writeString(folder.resolve("vmstat"), "drop_slab 8\noom_kill 3\noom_kill_disable 9\n");
        assertEquals(3, MemoryStats.outOfMemoryKills(vmstat));
        Files.writeString(vmstat, "drop_slab 8\n");
        assertEquals(0, MemoryStats.outOfMemoryKills(vmstat));
        assertEquals(0, MemoryStats.outOfMemoryKills(folder.resolve("missing")));
    }
}
