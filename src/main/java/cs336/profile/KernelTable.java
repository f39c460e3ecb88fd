package cs336.profile;

import static cs336.units.UnitFactors.NANOS_PER_MS;
import static cs336.units.UnitFactors.NANOS_PER_US;

import cs336.bench.AlignedText;
import cs336.numbers.Header;
import cs336.numbers.Tables;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.function.Predicate;
import tech.tablesaw.api.Table;

/**
 * The GPU work of a trace, or a selection of it, grouped by kernel. Memory copies and memory sets count as kernels.
 * Times are whole nanoseconds, so sums are exact.
 *
 * <pre>{@code
 * profile.kernels().of(KernelKind.MATMUL).rows().get(0)                     // the GEMM with the largest total time
 * profile.kernels().filter(k -> k.range().contains("attention.softmax"))    // launched inside this range
 * profile.kernels().kindTable()                                             // time by kind of kernel
 * }</pre>
 */
public final class KernelTable {
    private final List<DeviceEvent> work;

    /**
     * All launches of one kernel.
     *
     * @param name name of the kernel
     * @param kind the kind that most of its time belongs to
     * @param launches number of launches
     * @param total time of all launches in nanoseconds
     */
    public record KernelRow(String name, KernelKind kind, long launches, long total) {
        /** Returns the mean time of a launch in nanoseconds. */
        public double mean() {
            return (double) total / launches;
        }
    }

    private record PrintedKernel(
            KernelKind kind,
            long launches,
            @Header("total (ms)") double total,
            @Header("mean (µs)") double mean,
            @Header("of total (%)") double percent,
            String kernel) {}

    private record PrintedKind(
            KernelKind kind,
            long launches,
            @Header("total (ms)") double total,
            @Header("of total (%)") double percent) {}

    private KernelTable(List<DeviceEvent> work) {
        this.work = work;
    }

    /** Returns the table of all GPU work in a trace. */
    public static KernelTable of(Trace trace) {
        return new KernelTable(trace.work());
    }

    /** Returns the individual launches, stream by stream, each stream ordered by start. */
    public List<DeviceEvent> launches() {
        return work;
    }

    /** Returns the time of all launches in nanoseconds. Kernels that run concurrently on two streams count twice. */
    public long total() {
        return work.stream().mapToLong(DeviceEvent::duration).sum();
    }

    /** Returns the GPU busy time in nanoseconds: the time in which at least one launch ran, summed over GPUs. */
    public long busy() {
        return group(work, event -> event.stream().device()).values().stream()
                .mapToLong(events -> Intervals.during(events).total())
                .sum();
    }

    /** Returns one row per kernel, largest total first, equal totals by name. */
    public List<KernelRow> rows() {
        List<KernelRow> rows = new ArrayList<>();
        group(work, DeviceEvent::name).forEach((name, events) -> {
            Map<KernelKind, Long> kinds = new LinkedHashMap<>();
            events.forEach(e -> kinds.merge(e.kernelKind(), e.duration(), Long::sum));
            KernelKind kind = kinds.entrySet().stream()
                    .max(Map.Entry.comparingByValue())
                    .orElseThrow()
                    .getKey();
            long total = events.stream().mapToLong(DeviceEvent::duration).sum();
            rows.add(new KernelRow(name, kind, events.size(), total));
        });
        rows.sort(Comparator.comparingLong(KernelRow::total).reversed().thenComparing(KernelRow::name));
        return rows;
    }

    /** Returns the table of the launches that satisfy a condition. */
    public KernelTable filter(Predicate<DeviceEvent> condition) {
        return new KernelTable(work.stream().filter(condition).toList());
    }

    /** Returns the table of the launches of these kinds. */
    public KernelTable of(KernelKind... kinds) {
        return filter(event -> List.of(kinds).contains(event.kernelKind()));
    }

    /** Returns the table of the launches of one step, counted from 0 as by {@link Profiler#step}. */
    public KernelTable step(int number) {
        return filter(event -> event.step() == number);
    }

    /** Returns one table per kind that occurs, largest total first. */
    public Map<KernelKind, KernelTable> byKind() {
        Map<KernelKind, KernelTable> tables = new LinkedHashMap<>();
        group(work, DeviceEvent::kernelKind).entrySet().stream()
                .map(group -> Map.entry(group.getKey(), new KernelTable(group.getValue())))
                .sorted(Comparator.comparingLong((Map.Entry<KernelKind, KernelTable> group) ->
                                group.getValue().total())
                        .reversed())
                .forEach(group -> tables.put(group.getKey(), group.getValue()));
        return tables;
    }

    private static <K> Map<K, List<DeviceEvent>> group(List<DeviceEvent> events, Function<DeviceEvent, K> key) {
        Map<K, List<DeviceEvent>> groups = new LinkedHashMap<>();
        for (DeviceEvent event : events) {
            groups.computeIfAbsent(key.apply(event), k -> new ArrayList<>()).add(event);
        }
        return groups;
    }

    /**
     * Returns one row per kernel with the columns {@code kind}, {@code launches}, {@code total (ms)}, {@code mean
     * (µs)}, {@code of total (%)} and {@code kernel}.
     */
    public Table table() {
        long all = total();
        return Tables.of(
                PrintedKernel.class,
                rows().stream()
                        .map(row -> new PrintedKernel(
                                row.kind,
                                row.launches,
                                row.total / NANOS_PER_MS,
                                row.mean() / NANOS_PER_US,
                                percent(row.total, all),
                                row.name))
                        .toList());
    }

    /**
     * Returns one row per kind with the columns {@code kind}, {@code launches}, {@code total (ms)} and {@code of total
     * (%)}.
     */
    public Table kindTable() {
        long all = total();
        List<PrintedKind> rows = new ArrayList<>();
        byKind().forEach((kind, table) -> rows.add(
                new PrintedKind(kind, table.work.size(), table.total() / NANOS_PER_MS, percent(table.total(), all))));
        return Tables.of(PrintedKind.class, rows);
    }

    static double percent(long part, long whole) {
        return whole == 0 ? 0 : 100.0 * part / whole;
    }

    /** Returns {@link #table} as aligned text. */
    @Override
    public String toString() {
        return AlignedText.of(table());
    }
}
