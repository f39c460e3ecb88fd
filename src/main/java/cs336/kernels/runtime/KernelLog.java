package cs336.kernels.runtime;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Collectors;

/**
 * A log of kernel launches. While open, it records each launch of a kernel, and each time that a function used tensor
 * operations in place of its kernel, on all threads (PyTorch runs backward passes on its own threads).
 *
 * <pre>{@code
 * try (var log = KernelLog.open()) {
 *     FusedRmsNorm.apply(x, weight, 1e-5);
 *     System.out.println(log);     // kernel rmsnorm_forward<<<528, 256, 32768>>> on cuda:0
 * }
 * }</pre>
 */
public final class KernelLog implements AutoCloseable {
    private static final List<KernelLog> OPEN = new CopyOnWriteArrayList<>();

    /**
     * An entry of the log.
     *
     * @param route kernel or tensor operations
     * @param name the kernel, also where tensor operations replaced it
     * @param detail launch configuration and device, or the reason for tensor operations
     * @param resources resources of the kernel, including dynamic shared memory; null for tensor operations
     */
    public record KernelLogEntry(Route route, String name, String detail, KernelResources resources) {
        @Override
        public String toString() {
            return route + " " + name + " " + detail;
        }
    }

    private final List<KernelLogEntry> entries = new CopyOnWriteArrayList<>();

    private KernelLog() {}

    /** Opens a log. Several can be open at the same time. */
    public static KernelLog open() {
        var log = new KernelLog();
        OPEN.add(log);
        return log;
    }

    /** Returns the entries recorded so far, in order. */
    public List<KernelLogEntry> entries() {
        return List.copyOf(entries);
    }

    /** Returns the routes taken so far, in order. */
    public List<Route> routes() {
        return entries.stream().map(KernelLogEntry::route).toList();
    }

    @Override
    public void close() {
        OPEN.remove(this);
    }

    @Override
    public String toString() {
        return entries.stream().map(KernelLogEntry::toString).collect(Collectors.joining("\n"));
    }

    /** Returns whether a log is open; without one, callers need not format an entry. */
    static boolean isOpen() {
        return !OPEN.isEmpty();
    }

    static void noteLaunch(String name, String detail, KernelResources resources) {
        note(new KernelLogEntry(Route.KERNEL, name, detail, resources));
    }

    private static void note(KernelLogEntry entry) {
        OPEN.forEach(log -> log.entries.add(entry));
    }

    /** Records that tensor operations replaced a kernel, and the reason. */
    public static void noteTensorOperations(String name, String reason) {
        if (isOpen()) {
            note(new KernelLogEntry(Route.TENSOR_OPERATIONS, name, reason, null));
        }
    }
}
