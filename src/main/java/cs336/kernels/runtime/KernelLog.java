package cs336.kernels.runtime;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Collectors;

/**
 * Shows which way functions run: while open, it notes each launch of a kernel, and each time that tensor operations
 * stood in for one, on all threads (a backward pass on a card may run on one of PyTorch's).
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
     * One line of the log.
     *
     * @param route which way
     * @param name of the kernel, or of what it would have computed
     * @param detail how it was launched, or why tensor operations stood in
     */
    public record KernelLogEntry(Route route, String name, String detail) {
        @Override
        public String toString() {
            return route + " " + name + " " + detail;
        }
    }

    private final List<KernelLogEntry> entries = new CopyOnWriteArrayList<>();

    private KernelLog() {}

    /** Opens a log. Several may be open at once. */
    public static KernelLog open() {
        KernelLog log = new KernelLog();
        OPEN.add(log);
        return log;
    }

    /** What ran until now, in order. */
    public List<KernelLogEntry> entries() {
        return List.copyOf(entries);
    }

    /** The ways taken until now, in order. */
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

    /** Whether anybody looks: a note is not written for nobody. */
    static boolean isOpen() {
        return !OPEN.isEmpty();
    }

    static void note(Route route, String name, String detail) {
        KernelLogEntry entry = new KernelLogEntry(route, name, detail);
        OPEN.forEach(log -> log.entries.add(entry));
    }

    public static void noteTensorOperations(String name, String why) {
        if (isOpen()) note(Route.TENSOR_OPERATIONS, name, why);
    }
}
