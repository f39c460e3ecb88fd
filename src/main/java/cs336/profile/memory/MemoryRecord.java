package cs336.profile.memory;

import cs336.bench.ArgumentCheck;
import cs336.bench.WholeFile;
import cs336.numbers.Tables;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import tech.tablesaw.api.Table;

/**
 * A recording made by {@link MemoryProfile}: every block of memory with its lifetime. Time is counted in events: the
 * allocations and releases in the order in which they happened, from 0.
 */
public final class MemoryRecord {
    private final String device;
    private final List<Allocation> allocations;
    private final List<MemoryPhase> phases;
    private final List<Long> nanos;
    private final byte[] snapshot;
    private final long[] bytes; // in use after each event

    MemoryRecord(
            String device, List<Allocation> allocations, List<MemoryPhase> phases, List<Long> nanos, byte[] snapshot) {
        this.device = device;
        this.allocations = List.copyOf(allocations);
        this.phases = List.copyOf(phases);
        this.nanos = List.copyOf(nanos);
        this.snapshot = snapshot;
        bytes = new long[nanos.size()];
        long before = 0;
        for (Allocation a : allocations) {
            if (a.from() == Allocation.BEFORE) {
                before += a.bytes();
            } else {
                bytes[a.from()] += a.bytes();
            }
            if (a.until() < bytes.length) {
                bytes[a.until()] -= a.bytes();
            }
        }
        long now = before;
        for (int event = 0; event < bytes.length; event++) {
            now += bytes[event];
            bytes[event] = now;
        }
    }

    /**
     * Returns the device whose memory was recorded: {@code cpu}, or {@code cuda:N}, which this machine may not have if
     * the recording was read from a snapshot.
     */
    public String device() {
        return device;
    }

    /** Returns all blocks: first those that existed before the recording, then the others in order of allocation. */
    public List<Allocation> allocations() {
        return allocations;
    }

    /** Returns the phases in the order in which they ran. */
    public List<MemoryPhase> phases() {
        return phases;
    }

    /**
     * Returns the n-th phase of a name, counted from 0.
     *
     * @throws IllegalArgumentException if there is none; the message lists the recorded phases
     */
    public MemoryPhase phase(String name, int n) {
        List<MemoryPhase> found =
                phases.stream().filter(p -> p.name().equals(name)).toList();
        if (n < 0 || n >= found.size()) {
            throw new IllegalArgumentException("no phase " + name + " number " + n + "; recorded: "
                    + phases.stream().map(MemoryPhase::name).toList());
        }
        return found.get(n);
    }

    /** Returns the number of events. */
    public int events() {
        return bytes.length;
    }

    /** Returns the time of an event in nanoseconds after the first event. */
    public long nanos(int event) {
        return nanos.get(event) - nanos.get(0);
    }

    /** Returns the bytes in use just after an event. */
    public long bytes(int event) {
        return bytes[event];
    }

    /** Returns the peak: the most bytes in use after any event; 0 without events. */
    public long peakBytes() {
        return bytes.length == 0 ? 0 : bytes[peakEvent()];
    }

    /**
     * Returns the first event after which memory use is at its peak.
     *
     * @throws IllegalArgumentException if there are no events
     */
    public int peakEvent() {
        return peakEvent(0, bytes.length);
    }

    /**
     * Returns the first event of an interval after which memory use is at the peak of that interval.
     *
     * @param from first event
     * @param until first event after the interval
     * @throws IllegalArgumentException if the interval contains no event
     */
    public int peakEvent(int from, int until) {
        if (from < 0 || from >= until || until > bytes.length) {
            throw new IllegalArgumentException("from " + from + " and until " + until
                    + " must enclose an event; the recording has " + bytes.length);
        }
        int peak = from;
        for (int event = from; event < until; event++) {
            if (bytes[event] > bytes[peak]) {
                peak = event;
            }
        }
        return peak;
    }

    /**
     * Returns the bytes in use just after an event by category. All categories are present; the sum is {@link #bytes}.
     */
    public Map<MemoryCategory, Long> breakdown(int event) {
        var sums = new EnumMap<MemoryCategory, Long>(MemoryCategory.class);
        for (MemoryCategory category : MemoryCategory.values()) {
            sums.put(category, 0L);
        }
        for (Allocation a : allocations) {
            if (a.isAliveAfter(event)) {
                sums.merge(a.category(), a.bytes(), Long::sum);
            }
        }
        return Collections.unmodifiableMap(sums);
    }

    /** Blocks of the same size, category and origin, and their number. */
    private record BlockGroup(long bytes, long count, MemoryCategory category, String origin) {
        private BlockGroup times(long count) {
            return new BlockGroup(bytes, count, category, origin);
        }
    }

    /**
     * Returns the largest blocks that were allocated in an interval, with the columns {@code bytes}, {@code count},
     * {@code category} and {@code origin}. Blocks of the same size, category and origin share a row. All layers of a
     * model count as the same origin, {@code layers.*}.
     *
     * @param from first event
     * @param until first event after the interval
     * @param rows maximum number of rows
     * @throws IllegalArgumentException if {@code rows} is negative
     */
    public Table largest(int from, int until, int rows) {
        ArgumentCheck.atLeast("rows", 0, rows);
        var counts = new HashMap<BlockGroup, Long>();
        for (Allocation a : allocations) {
            if (from <= a.from() && a.from() < until) {
                counts.merge(new BlockGroup(a.bytes(), 1, a.category(), ofAllLayers(a.origin())), 1L, Long::sum);
            }
        }
        return Tables.of(
                BlockGroup.class,
                counts.entrySet().stream()
                        .map(group -> group.getKey().times(group.getValue()))
                        .sorted(Comparator.comparingLong(BlockGroup::bytes)
                                .reversed()
                                .thenComparing(BlockGroup::origin)
                                .thenComparing(BlockGroup::category))
                        .limit(rows)
                        .toList());
    }

    private static String ofAllLayers(String origin) {
        return origin.replaceAll("\\.\\d+\\b", ".*");
    }

    /**
     * Writes the recording as a PyTorch memory snapshot, which pytorch.org/memory_viz and
     * {@code torch.cuda._memory_viz} display. Blocks have their phase and place where Python would have a stack trace.
     * On CUDA the snapshot is the allocator's own history with its segments and cached blocks. On the CPU the only
     * segments are the marked blocks that existed before the recording.
     *
     * @return the file
     * @throws IOException if the file cannot be written
     */
    public Path saveSnapshot(Path file) throws IOException {
        Files.createDirectories(file.toAbsolutePath().getParent());
        byte[] pickled = MemorySnapshot.pickle(this, snapshot);
        return WholeFile.write(file, out -> out.write(pickled));
    }

    /**
     * Returns the memory use over an interval, reduced to at most {@code points} points for a figure.
     *
     * @param from first event
     * @param until first event after the interval
     * @throws IllegalArgumentException if the interval contains no event or {@code points} is below 1
     */
    public MemoryTimeline timeline(int from, int until, int points) {
        return MemoryTimeline.of(this, from, until, points);
    }
}
