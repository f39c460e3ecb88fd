package cs336.profile;

import static cs336.profile.KernelTable.percent;
import static cs336.units.UnitFactors.MIB;
import static cs336.units.UnitFactors.NANOS_PER_MS;
import static cs336.units.UnitFactors.NANOS_PER_US;

import cs336.bench.AlignedText;
import cs336.bench.ArgumentCheck;
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
 * The operators and ranges of a trace grouped by name, like {@code key_averages()} of PyTorch's profiler. Times are
 * whole nanoseconds.
 *
 * <p>Total times include nested calls; a call nested in a call of the same name counts only once. Self times exclude
 * nested operators and ranges but include the CUDA API calls that the operator makes, so the self times of all rows sum
 * to the time that CPU threads spent in recorded events. Device times are those of the kernels and copies that a call
 * launched.
 */
public final class OpTable {
    private final List<OpRow> rows;

    /**
     * All calls of one name. Times are in nanoseconds.
     *
     * @param name name of the operator, range, function or CUDA API call
     * @param kind kind of event; a CUDA API call has its own row only outside all operators and ranges
     * @param calls number of calls
     * @param cpuSelf time on CPU threads outside nested calls
     * @param cpuTotal time on CPU threads including nested calls
     * @param deviceSelf GPU time of the kernels and copies that the call launched outside nested calls
     * @param deviceTotal GPU time of the kernels and copies that the call and its nested calls launched
     * @param cpuMemory bytes allocated minus bytes freed on the CPU outside nested calls
     * @param deviceMemory bytes allocated minus bytes freed on GPUs outside nested calls
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
        /** Returns the mean time of a call on its CPU thread in nanoseconds. */
        public double cpuMean() {
            return (double) cpuTotal / calls;
        }

        /** Returns the mean GPU time of a call in nanoseconds. */
        public double deviceMean() {
            return (double) deviceTotal / calls;
        }
    }

    private OpTable(List<OpRow> rows) {
        this.rows = List.copyOf(rows);
    }

    /** Returns all operators and ranges of a trace, largest GPU self time first, then largest CPU self time. */
    public static OpTable of(Trace trace) {
        var totals = new OpTotals();
        trace.host().forEach(totals::add);
        trace.work().forEach(totals::add);
        totals.addMemory(trace);
        return new OpTable(totals.rows())
                .sorted(Comparator.comparingLong(OpRow::deviceSelf)
                        .thenComparingLong(OpRow::cpuSelf)
                        .reversed()
                        .thenComparing(OpRow::name));
    }

    /** Sums of times and memory by kind and name of the event. */
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
                if (isOutermost(event)) {
                    sum.cpuTotal += event.duration();
                }
            }
        }

        void add(DeviceEvent event) {
            if (event.launch() == null) {
                return;
            }
            HostEvent owner = owner(event.launch());
            of(owner).deviceSelf += event.duration();
            for (HostEvent at = owner; at != null; at = at.outer()) {
                if (isOutermost(at)) {
                    of(at).deviceTotal += event.duration();
                }
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
                if (inside == null) {
                    continue;
                }
                OpSum sum = of(owner(inside));
                if (change.isOnGpu()) {
                    sum.deviceMemory += change.bytes();
                } else {
                    sum.cpuMemory += change.bytes();
                }
            }
        }

        /** Returns the event itself or, for a nested CUDA API call, the event that makes the call. */
        private static HostEvent owner(HostEvent event) {
            HostEvent owner = event;
            while (owner.kind() == HostEventKind.CALL && owner.parent() != null) {
                owner = owner.parent();
            }
            return owner;
        }

        private static boolean isOutermost(HostEvent event) {
            for (HostEvent around = event.outer(); around != null; around = around.outer()) {
                if (around.kind() == event.kind() && around.name().equals(event.name())) {
                    return false;
                }
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

    /** Returns one row per operator or range. */
    public List<OpRow> rows() {
        return rows;
    }

    /**
     * Returns the row of this name.
     *
     * @throws IllegalArgumentException if there is none
     */
    public OpRow row(String name) {
        return rows.stream()
                .filter(row -> row.name.equals(name))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("name '" + name + "' was not recorded; recorded: "
                        + rows.stream().map(OpRow::name).sorted().toList()));
    }

    /** Returns the table of the rows that satisfy a condition. */
    public OpTable filter(Predicate<OpRow> condition) {
        return new OpTable(rows.stream().filter(condition).toList());
    }

    /** Returns the table of the operators, without ranges. */
    public OpTable operators() {
        return filter(row -> row.kind == HostEventKind.OP);
    }

    /** Returns the table of the ranges, including steps. */
    public OpTable ranges() {
        return filter(row -> row.kind == HostEventKind.RANGE);
    }

    /** Returns the same rows in descending order of a column, as in {@code sortedBy(OpRow::cpuTotal)}. */
    public OpTable sortedBy(ToLongFunction<OpRow> column) {
        return sorted(Comparator.comparingLong(column).reversed().thenComparing(OpRow::name));
    }

    private OpTable sorted(Comparator<OpRow> order) {
        return new OpTable(rows.stream().sorted(order).toList());
    }

    /**
     * Returns the table of the first {@code count} rows.
     *
     * @throws IllegalArgumentException if {@code count} is negative
     */
    public OpTable top(int count) {
        ArgumentCheck.atLeast("count", 0, count);
        return new OpTable(rows.subList(0, Math.min(count, rows.size())));
    }

    /** Returns the CPU self time of all rows in nanoseconds. */
    public long cpuSelf() {
        return rows.stream().mapToLong(OpRow::cpuSelf).sum();
    }

    /** Returns the GPU self time of all rows in nanoseconds. */
    public long deviceSelf() {
        return rows.stream().mapToLong(OpRow::deviceSelf).sum();
    }

    /**
     * Returns one table row per operator or range. Columns of GPU times and of memory are present only if some row has
     * a value for them. Percentages are of the self time of all rows.
     */
    public Table table() {
        Table table = Table.create(
                "operators", LongColumn.create("calls", rows.stream().mapToLong(OpRow::calls)));
        long cpuAll = cpuSelf();
        long deviceAll = deviceSelf();
        add(table, "CPU self (ms)", row -> row.cpuSelf / NANOS_PER_MS);
        add(table, "CPU self (%)", row -> percent(row.cpuSelf, cpuAll));
        add(table, "CPU total (ms)", row -> row.cpuTotal / NANOS_PER_MS);
        add(table, "CPU mean (µs)", row -> row.cpuMean() / NANOS_PER_US);
        if (rows.stream().anyMatch(row -> row.deviceTotal != 0)) {
            add(table, "GPU self (ms)", row -> row.deviceSelf / NANOS_PER_MS);
            add(table, "GPU self (%)", row -> percent(row.deviceSelf, deviceAll));
            add(table, "GPU total (ms)", row -> row.deviceTotal / NANOS_PER_MS);
            add(table, "GPU mean (µs)", row -> row.deviceMean() / NANOS_PER_US);
        }
        if (rows.stream().anyMatch(row -> row.cpuMemory != 0)) {
            add(table, "CPU memory (MiB)", row -> row.cpuMemory / MIB);
        }
        if (rows.stream().anyMatch(row -> row.deviceMemory != 0)) {
            add(table, "GPU memory (MiB)", row -> row.deviceMemory / MIB);
        }
        return table.addColumns(StringColumn.create("name", rows.stream().map(OpRow::name)));
    }

    private void add(Table table, String header, ToDoubleFunction<OpRow> value) {
        table.addColumns(DoubleColumn.create(header, rows.stream().mapToDouble(value)));
    }

    /** Returns {@link #table} as aligned text. */
    @Override
    public String toString() {
        return AlignedText.of(table());
    }
}
