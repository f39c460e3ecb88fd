package cs336.torch;

import com.sun.jna.Function;
import com.sun.jna.NativeLibrary;
import com.sun.jna.NativeLong;
import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.bytedeco.pytorch.cuda.DeviceAllocator;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.DeviceType;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * Memory statistics of a device, in bytes. On CUDA: the allocated bytes of PyTorch's caching allocator, without its
 * cache ({@code torch.cuda.memory_allocated}). On the CPU: the resident set size of this process, including the Java
 * heap, after malloc has returned its free memory to the operating system.
 */
public final class MemoryStats {
    private static final Function MALLOC_TRIM = NativeLibrary.getProcess().getFunction("malloc_trim");

    private MemoryStats() {}

    /** Returns the size of a device's memory in bytes; for the CPU, that of this machine or container. */
    public static long total(Device device) {
        if (device.isCuda()) {
            try (var scope = MemoryScope.open()) {
                return torch_cuda.getDeviceProperties((byte) device.index()).totalGlobalMem();
            }
        }
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getTotalMemorySize();
    }

    /** Returns the bytes in use now. */
    public static long current(Device device) {
        if (device.isCuda()) {
            try (var scope = MemoryScope.open()) {
                return allocator()
                        .getDeviceStats((byte) device.index())
                        .allocated_bytes()
                        .current();
            }
        }
        trimMalloc();
        return status("VmRSS");
    }

    /** Returns the peak of the bytes in use since {@link #resetPeak}, or since the process started. */
    public static long peak(Device device) {
        if (device.isCuda()) {
            try (var scope = MemoryScope.open()) {
                return allocator()
                        .getDeviceStats((byte) device.index())
                        .allocated_bytes()
                        .peak();
            }
        }
        return status("VmHWM");
    }

    /**
     * Resets the peak to the bytes in use now.
     *
     * @throws UncheckedIOException if this process must not write to /proc/self/clear_refs
     */
    public static void resetPeak(Device device) {
        if (device.isCuda()) {
            try (var scope = MemoryScope.open()) {
                allocator().resetPeakStats((byte) device.index());
            }
            return;
        }
        trimMalloc();
        try {
            int resetPeakResidentSet = 5; // proc(5), /proc/[pid]/clear_refs
            Files.writeString(Path.of("/proc/self/clear_refs"), Integer.toString(resetPeakResidentSet));
        } catch (IOException e) {
            throw new UncheckedIOException("cannot reset the peak memory of this process in /proc/self/clear_refs", e);
        }
    }

    /**
     * Returns the free bytes. On CUDA, those that the driver reports ({@code torch.cuda.mem_get_info}): the cache of
     * PyTorch's allocator counts as used, although new tensors can use it. On the CPU, MemAvailable of Linux, or what a
     * smaller limit of this process's control groups leaves, as in a container or a Slurm job.
     */
    public static long available(Device device) {
        if (device.isCuda()) {
            try (var scope = MemoryScope.open()) {
                device.makeCurrent();
                return allocator().getMemoryInfo((byte) device.index()).first();
            }
        }
        try {
            return Math.min(
                    kibibytes("/proc/meminfo", "MemAvailable"),
                    controlGroupFree(
                            Path.of("/sys/fs/cgroup"),
                            lines(Path.of("/proc/self/cgroup")).toList()));
        } catch (IOException e) {
            throw new UncheckedIOException("cannot read the control groups of this process", e);
        }
    }

    /**
     * Returns the least number of bytes that the limit of a control group leaves free, or {@link Long#MAX_VALUE} if no
     * group has a limit. Pages of files that were not used recently count as free, because Linux reclaims them first.
     *
     * @param root where control groups are mounted
     * @param groups lines of {@code /proc/self/cgroup}: {@code 0::/path} in version 2, {@code 4:memory:/path} in
     *     version 1
     */
    static long controlGroupFree(Path root, List<String> groups) throws IOException {
        long free = Long.MAX_VALUE;
        for (String line : groups) {
            String[] fields = line.split(":", 3);
            boolean version2 = fields[1].isEmpty();
            if (!version2 && !List.of(fields[1].split(",")).contains("memory")) {
                continue;
            }
            Path mounted = version2 ? root : root.resolve("memory");
            Path group =
                    mounted.resolve(Path.of(fields[2]).normalize().toString().substring(1));
            for (; group.startsWith(mounted); group = group.getParent()) { // in a container only the last one exists
                Path limit = group.resolve(version2 ? "memory.max" : "memory.limit_in_bytes");
                String most = Files.exists(limit) ? Files.readString(limit) : "max";
                if (!most.startsWith("max")) {
                    long used = number(
                            Files.readString(group.resolve(version2 ? "memory.current" : "memory.usage_in_bytes")));
                    long reclaimable =
                            read(group.resolve("memory.stat"), version2 ? "inactive_file " : "total_inactive_file ");
                    free = Math.min(free, Math.max(0, number(most) - used + reclaimable));
                }
            }
        }
        return free;
    }

    /** Returns the number of processes that Linux has killed since its start because memory was full; 0 if unknown. */
    public static long outOfMemoryKills() {
        return outOfMemoryKills(Path.of("/proc/vmstat"));
    }

    static long outOfMemoryKills(Path vmstat) {
        try {
            return lines(vmstat)
                    .filter(line -> line.startsWith("oom_kill "))
                    .mapToLong(MemoryStats::number)
                    .sum();
        } catch (IOException e) {
            return 0;
        }
    }

    /** Makes malloc return its free memory to the operating system. */
    private static void trimMalloc() {
        long paddingBytes = 0;
        MALLOC_TRIM.invokeInt(new Object[] {new NativeLong(paddingBytes)});
    }

    private static DeviceAllocator allocator() {
        torch.globalContext().lazyInitDevice(DeviceType.CUDA); // before that the allocator has no devices
        return torch_cuda.getDeviceAllocator(DeviceType.CUDA);
    }

    private static long status(String field) {
        return kibibytes("/proc/self/status", field);
    }

    /** Returns the bytes of a line such as {@code VmRSS: 1234 kB}. */
    private static long kibibytes(String file, String field) {
        return 1024 * read(Path.of(file), field + ":");
    }

    /** Returns the lines of a file, also on an interrupted thread, on which {@link Files#lines} fails. */
    private static Stream<String> lines(Path file) throws IOException {
        return Files.readString(file).lines();
    }

    /** Returns the number in the line that begins so. */
    private static long read(Path file, String field) {
        try {
            return number(lines(file)
                    .filter(line -> line.startsWith(field))
                    .findFirst()
                    .orElseThrow(() -> new IllegalStateException(file + " has no line " + field)));
        } catch (IOException e) {
            throw new UncheckedIOException("cannot read " + file, e);
        }
    }

    private static long number(String line) {
        return Long.parseLong(line.replaceAll("\\D", ""));
    }
}
