package cs336.torch;

import com.sun.jna.Function;
import com.sun.jna.NativeLibrary;
import com.sun.jna.NativeLong;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.bytedeco.pytorch.cuda.DeviceAllocator;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.DeviceType;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * How much memory a device uses, in bytes. On CUDA: what PyTorch's caching allocator has handed out, without its cache.
 * On the CPU: the resident set of this process, Java's own memory included, without what C's allocator keeps for later.
 */
public final class MemoryStats {
    private static final Function MALLOC_TRIM = NativeLibrary.getProcess().getFunction("malloc_trim");

    private MemoryStats() {}

    /** Bytes in use now. */
    public static long current(Device device) {
        if (device.isCuda()) {
            try (var scope = MemoryScope.open()) {
                return allocator()
                        .getDeviceStats((byte) device.index())
                        .allocated_bytes()
                        .current();
            }
        }
        handBackWhatIsFree();
        return status("VmRSS");
    }

    /** The most bytes in use since {@link #resetPeak}, or since the process began. */
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

    /** Starts a new peak from what is in use now. */
    public static void resetPeak(Device device) {
        if (device.isCuda()) {
            try (var scope = MemoryScope.open()) {
                allocator().resetPeakStats((byte) device.index());
            }
            return;
        }
        handBackWhatIsFree();
        try {
            int resetPeakResidentSet = 5; // proc(5), /proc/[pid]/clear_refs
            Files.writeString(Path.of("/proc/self/clear_refs"), Integer.toString(resetPeakResidentSet));
        } catch (IOException e) {
            throw new UncheckedIOException("the peak of this process could not be reset", e);
        }
    }

    /** Bytes that a new allocation could get: free memory of the card, or what Linux calls available. */
    public static long available(Device device) {
        if (device.isCuda()) {
            try (var scope = MemoryScope.open()) {
                device.makeCurrent();
                return allocator().getMemoryInfo((byte) device.index()).first();
            }
        }
        return read("/proc/meminfo", "MemAvailable");
    }

    /** What is freed stays with the process unless it was large; asked to, the allocator gives it to the system. */
    private static void handBackWhatIsFree() {
        long nothingKept = 0;
        MALLOC_TRIM.invokeInt(new Object[] {new NativeLong(nothingKept)});
    }

    private static DeviceAllocator allocator() {
        torch.globalContext().lazyInitDevice(DeviceType.CUDA); // it knows no card before that
        return torch_cuda.getDeviceAllocator(DeviceType.CUDA);
    }

    private static long status(String field) {
        return read("/proc/self/status", field);
    }

    /** Reads a line such as {@code VmRSS: 1234 kB}. */
    private static long read(String file, String field) {
        try (Stream<String> lines = Files.lines(Path.of(file))) {
            String line = lines.filter(l -> l.startsWith(field + ":"))
                    .findFirst()
                    .orElseThrow(() -> new IllegalStateException(file + " has no line " + field));
            return 1024 * Long.parseLong(line.replaceAll("\\D", ""));
        } catch (IOException e) {
            throw new UncheckedIOException(file + " could not be read", e);
        }
    }
}
