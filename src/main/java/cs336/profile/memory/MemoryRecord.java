package cs336.profile.memory;

import cs336.torch.Device;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import tech.tablesaw.api.LongColumn;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/**
 * What a {@link MemoryProfile} recorded. Times are counted in events: allocations and releases, in their order, from 0.
 */
public final class MemoryRecord {
    private final Device device;
    private final List<Allocation> allocations;
    private final List<MemoryPhase> phases;
    private final List<Long> nanos;
    private final byte[] snapshot;
    private final long[] bytes; // in use after each event

    MemoryRecord(
            Device device, List<Allocation> allocations, List<MemoryPhase> phases, List<Long> nanos, byte[] snapshot) {
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

    /** The device whose memory it is. */
    public Device device() {
        return device;
    }

    /** Every block, those that were there before first, then in the order of allocation. */
    public List<Allocation> allocations() {
        return allocations;
    }

    /** The phases, in their order. */
    public List<MemoryPhase> phases() {
        return phases;
    }

    /**
     * The n-th phase of a name, counted from 0.
     *
     * @throws IllegalArgumentException if there is none; the message lists those there are
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

    /** How many allocations and releases there were. */
    public int events() {
        return bytes.length;
    }

    /** When an event happened, in nanoseconds after the first. */
    public long nanos(int event) {
        return nanos.get(event) - nanos.get(0);
    }

    /** Bytes in use just after an event. */
    public long bytes(int event) {
        return bytes[event];
    }

    /** The most bytes in use at any time. */
    public long peakBytes() {
        return bytes.length == 0 ? 0 : bytes[peakEvent()];
    }

    /** The event after which most was in use; the first such. */
    public int peakEvent() {
        return peakEvent(0, bytes.length);
    }

    /**
     * The event of a stretch after which most was in use; the first such.
     *
     * @param from its first event
     * @param until the first event after it
     * @throws IllegalArgumentException if there is none in it
     */
    public int peakEvent(int from, int until) {
        if (from < 0 || from >= until || until > bytes.length) {
            throw new IllegalArgumentException(
                    "no event from " + from + " to before " + until + "; the record has " + bytes.length);
        }
        int peak = from;
        for (int event = from; event < until; event++) {
            if (bytes[event] > bytes[peak]) {
                peak = event;
            }
        }
        return peak;
    }

    /** The blocks in use just after an event, the largest first. */
    public List<Allocation> alive(int event) {
        return allocations.stream()
                .filter(a -> a.isAliveAfter(event))
                .sorted(Comparator.comparingLong(Allocation::bytes).reversed())
                .toList();
    }

    /**
     * Bytes in use just after an event by what they hold; every category is there, and they add up to {@link #bytes}.
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

    /** Blocks of one size and origin. */
    private record BlockGroup(long bytes, String category, String origin) {}

    /**
     * The largest blocks allocated in a stretch: columns {@code bytes}, {@code count}, {@code category},
     * {@code origin}. Blocks of one size, category and origin share a row; the layers of a model count as one,
     * {@code layers.*}.
     *
     * @param rows the most rows
     */
    public Table largest(int from, int until, int rows) {
        var counts = new HashMap<BlockGroup, Long>();
        for (Allocation a : allocations) {
            if (from <= a.from() && a.from() < until) {
                counts.merge(
                        new BlockGroup(a.bytes(), a.category().toString(), ofAllLayers(a.origin())), 1L, Long::sum);
            }
        }
        List<BlockGroup> kinds = new ArrayList<>(counts.keySet());
        kinds.sort(Comparator.comparingLong(BlockGroup::bytes).reversed().thenComparing(BlockGroup::origin));
        var table = Table.create(
                "largest allocations",
                LongColumn.create("bytes"),
                LongColumn.create("count"),
                StringColumn.create("category"),
                StringColumn.create("origin"));
        for (BlockGroup kind : kinds.subList(0, Math.min(rows, kinds.size()))) {
            table.longColumn(0).append(kind.bytes);
            table.longColumn(1).append(counts.get(kind));
            table.stringColumn(2).append(kind.category);
            table.stringColumn(3).append(kind.origin);
        }
        return table;
    }

    private static String ofAllLayers(String origin) {
        return origin.replaceAll("\\.\\d+\\b", ".*");
    }

    /**
     * The record in the form of PyTorch's memory snapshots, which the page at pytorch.org/memory_viz and
     * {@code torch.cuda._memory_viz} open. Where Python would have stack traces, blocks have phase and place. On CUDA
     * it is the allocator's own history, with segments and cached blocks; on the CPU there are none.
     */
    public Path saveSnapshot(Path file) throws IOException {
        Files.createDirectories(file.toAbsolutePath().getParent());
        return Files.write(file, MemorySnapshot.pickle(this, snapshot));
    }

    /** As much as a picture needs of a stretch; see {@link MemoryTimeline}. */
    public MemoryTimeline timeline(int from, int until, int points) {
        return MemoryTimeline.of(this, from, until, points);
    }
}
