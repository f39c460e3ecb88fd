package cs336.profile;

import cs336.bench.AlignedText;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import java.util.function.ToDoubleFunction;
import java.util.function.ToLongFunction;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.LongColumn;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/**
 * A trace's operators and ranges by name: the table that users of PyTorch's profiler know. Times are whole nanoseconds.
 *
 * <p>A total covers what runs inside; of a call inside one of the same name, the outer one's. A self time covers what
 * runs in no event inside, CUDA calls aside, which belong to the operator that makes them; so self times add up to the
 * trace's. Device time is that of the kernels and copies that a call started.
 */
public final class OpTable {
    private static final double NANOS_PER_MS = 1e6;
    private static final double NANOS_PER_US = 1e3;
    private static final double BYTES_PER_MIB = 1 << 20;

    private final List<OpRow> rows;

    /**
     * All calls of one name.
     *
     * @param name of the operator, or of whatever {@code kind} says
     * @param kind what it is; a CUDA call that no operator or range made stands for itself
     * @param calls how often
     * @param cpuSelf time on threads, outside other calls
     * @param cpuTotal time on threads
     * @param deviceSelf time on cards, of what it started outside other calls
     * @param deviceTotal time on cards
     * @param cpuMemory bytes of the CPU allocated less released, outside other calls
     * @param deviceMemory the same of cards
     */
    public record OpRow(
            String name,
            HostEventKind kind,
            long calls,
            long cpuSelf,
            long cpuTotal,
            long deviceSelf,
            long deviceTotal,
            long cpuMemory,
            long deviceMemory) {
        /** The mean time of a call on its thread in nanoseconds. */
        public double cpuMean() {
            return (double) cpuTotal / calls;
        }

        /** The mean time on cards for a call in nanoseconds. */
        public double deviceMean() {
            return (double) deviceTotal / calls;
        }
    }

    private OpTable(List<OpRow> rows) {
        this.rows = List.copyOf(rows);
    }

    /** All operators and ranges of a trace, the longest self time on cards first, then that on threads. */
    public static OpTable of(Trace trace) {
        OpTotals sums = new OpTotals();
        trace.host().forEach(sums::add);
        trace.work().forEach(sums::add);
        sums.addMemory(trace);
        return new OpTable(sums.rows())
                .sorted(Comparator.comparingLong(OpRow::deviceSelf)
                        .thenComparingLong(OpRow::cpuSelf)
                        .reversed()
                        .thenComparing(OpRow::name));
    }

    /** What is added up for each name. */
    private static final class OpTotals {
        private record OpKey(HostEventKind kind, String name) {}

        private static final class OpSum {
            private long calls;
            private long cpuSelf;
            private long cpuTotal;
            private long deviceSelf;
            private long deviceTotal;
            private long cpuMemory;
            private long deviceMemory;
        }

        private final Map<OpKey, OpSum> sums = new LinkedHashMap<>();

        private OpSum of(HostEvent event) {
            return sums.computeIfAbsent(new OpKey(event.kind(), event.name()), k -> new OpSum());
        }

        void add(HostEvent event) {
            HostEvent owner = owner(event);
            of(owner).cpuSelf += event.self();
            if (owner == event) {
                OpSum sum = of(event);
                sum.calls++;
                if (isOutermost(event)) sum.cpuTotal += event.duration();
            }
        }

        void add(DeviceEvent event) {
            if (event.launch() == null) return;
            HostEvent owner = owner(event.launch());
            of(owner).deviceSelf += event.duration();
            for (HostEvent at = owner; at != null; at = at.outer()) {
                if (isOutermost(at)) of(at).deviceTotal += event.duration();
            }
        }

        void addMemory(Trace trace) {
            Map<HostThread, List<HostEvent>> threads = new HashMap<>();
            for (HostEvent event : trace.host()) {
                threads.computeIfAbsent(event.thread(), t -> new ArrayList<>()).add(event);
            }
            for (MemoryEvent change : trace.memory()) {
                HostEvent inside =
                        EventLookup.innermost(threads.getOrDefault(change.thread(), List.of()), change.time());
                if (inside == null) continue;
                OpSum sum = of(owner(inside));
                if (change.isOnGpu()) sum.deviceMemory += change.bytes();
                else sum.cpuMemory += change.bytes();
            }
        }

        /** The event, or, for a CUDA call inside something, that. */
        private static HostEvent owner(HostEvent event) {
            HostEvent owner = event;
            while (owner.kind() == HostEventKind.CALL && owner.parent() != null) owner = owner.parent();
            return owner;
        }

        private static boolean isOutermost(HostEvent event) {
            for (HostEvent around = event.outer(); around != null; around = around.outer()) {
                if (around.kind() == event.kind() && around.name().equals(event.name())) return false;
            }
            return true;
        }

        List<OpRow> rows() {
            List<OpRow> rows = new ArrayList<>();
            sums.forEach((key, sum) -> rows.add(new OpRow(
                    key.name,
                    key.kind,
                    sum.calls,
                    sum.cpuSelf,
                    sum.cpuTotal,
                    sum.deviceSelf,
                    sum.deviceTotal,
                    sum.cpuMemory,
                    sum.deviceMemory)));
            return rows;
        }
    }

    /** A row an operator or range. */
    public List<OpRow> rows() {
        return rows;
    }

    /**
     * The row of this name.
     *
     * @throws IllegalArgumentException if there is none
     */
    public OpRow row(String name) {
        return rows.stream()
                .filter(row -> row.name.equals(name))
                .findFirst()
                .orElseThrow(
                        () -> new IllegalArgumentException("nothing of the name '" + name + "' was recorded; recorded: "
                                + rows.stream().map(OpRow::name).sorted().toList()));
    }

    /** The rows for which this holds. */
    public OpTable filter(Predicate<OpRow> condition) {
        return new OpTable(rows.stream().filter(condition).toList());
    }

    /** Operators alone, without ranges. */
    public OpTable operators() {
        return filter(row -> row.kind == HostEventKind.OP);
    }

    /** Ranges alone, steps included. */
    public OpTable ranges() {
        return filter(row -> row.kind == HostEventKind.RANGE);
    }

    /** The same rows, the largest first by this: {@code sortedBy(OpRow::cpuTotal)}. */
    public OpTable sortedBy(ToLongFunction<OpRow> column) {
        return sorted(Comparator.comparingLong(column).reversed().thenComparing(OpRow::name));
    }

    private OpTable sorted(Comparator<OpRow> order) {
        return new OpTable(rows.stream().sorted(order).toList());
    }

    /** The first rows. */
    public OpTable top(int count) {
        return new OpTable(rows.subList(0, Math.min(count, rows.size())));
    }

    /** Self time on threads of all rows, in nanoseconds. */
    public long cpuSelf() {
        return rows.stream().mapToLong(OpRow::cpuSelf).sum();
    }

    /** Self time on cards of all rows, in nanoseconds. */
    public long deviceSelf() {
        return rows.stream().mapToLong(OpRow::deviceSelf).sum();
    }

    /**
     * A row an operator or range. Columns of cards and of memory are there if anything was recorded for them; shares
     * are of these rows' self times.
     */
    public Table table() {
        Table table = Table.create(
                "operators", LongColumn.create("calls", rows.stream().mapToLong(OpRow::calls)));
        boolean device = rows.stream().anyMatch(row -> row.deviceTotal != 0);
        long cpuAll = cpuSelf();
        long deviceAll = deviceSelf();
        add(table, "CPU self [ms]", row -> row.cpuSelf / NANOS_PER_MS);
        add(table, "share [%]", row -> percent(row.cpuSelf, cpuAll));
        add(table, "CPU total [ms]", row -> row.cpuTotal / NANOS_PER_MS);
        add(table, "CPU mean [µs]", row -> row.cpuMean() / NANOS_PER_US);
        if (device) {
            add(table, "device self [ms]", row -> row.deviceSelf / NANOS_PER_MS);
            add(table, "device share [%]", row -> percent(row.deviceSelf, deviceAll));
            add(table, "device total [ms]", row -> row.deviceTotal / NANOS_PER_MS);
            add(table, "device mean [µs]", row -> row.deviceMean() / NANOS_PER_US);
        }
        if (rows.stream().anyMatch(row -> row.cpuMemory != 0)) {
            add(table, "CPU memory [MiB]", row -> row.cpuMemory / BYTES_PER_MIB);
        }
        if (rows.stream().anyMatch(row -> row.deviceMemory != 0)) {
            add(table, "device memory [MiB]", row -> row.deviceMemory / BYTES_PER_MIB);
        }
        return table.addColumns(StringColumn.create("name", rows.stream().map(OpRow::name)));
    }

    private void add(Table table, String heading, ToDoubleFunction<OpRow> value) {
        table.addColumns(DoubleColumn.create(heading, rows.stream().mapToDouble(value)));
    }

    private static double percent(long part, long whole) {
        return whole == 0 ? 0 : 100.0 * part / whole;
    }

    /** The table as aligned text. */
    @Override
    public String toString() {
        return AlignedText.of(table());
    }
}
