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
     * Returns the free bytes: those that the CUDA driver reports ({@code torch.cuda.mem_get_info}), or MemAvailable of
     * Linux. The cache of PyTorch's allocator counts as used, although new tensors can use it.
     */
    public static long available(Device device) {
        if (device.isCuda()) {
            try (var scope = MemoryScope.open()) {
                device.makeCurrent();
                return allocator().getMemoryInfo((byte) device.index()).first();
            }
        }
        return read("/proc/meminfo", "MemAvailable");
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
        return read("/proc/self/status", field);
    }

    /** Returns the bytes of a line such as {@code VmRSS: 1234 kB}. */
    private static long read(String file, String field) {
        try (Stream<String> lines = Files.lines(Path.of(file))) {
            String line = lines.filter(l -> l.startsWith(field + ":"))
                    .findFirst()
                    .orElseThrow(() -> new IllegalStateException(file + " has no line " + field));
            return 1024 * Long.parseLong(line.replaceAll("\\D", ""));
        } catch (IOException e) {
            throw new UncheckedIOException("cannot read " + file, e);
        }
    }
}
