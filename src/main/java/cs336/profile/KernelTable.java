package cs336.profile;

import cs336.bench.AlignedText;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.function.Predicate;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.LongColumn;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/**
 * The work of a trace's cards, or a part of it, by kernel. Copies and memory sets by the card count as kernels. Times
 * are whole nanoseconds and sums are exact.
 *
 * <pre>{@code
 * profile.kernels().inside("attention.softmax").total()   // started there, forward or backward pass
 * profile.kernels().gradientOf("attention.softmax")       // of the backward pass of what ran there
 * profile.kernels().of(KernelKind.MATMUL).rows().get(0)   // the longest matrix product
 * profile.kernels().byRange()                             // a table for each place in the program
 * }</pre>
 */
public final class KernelTable {
    private static final double NANOS_PER_MS = 1e6;
    private static final double NANOS_PER_US = 1e3;

    private final List<DeviceEvent> work;

    /**
     * All launches of one kernel.
     *
     * @param name of the kernel
     * @param kind of most of its launches' time
     * @param launches how often it ran
     * @param total its time in nanoseconds
     */
    public record KernelRow(String name, KernelKind kind, long launches, long total) {
        /** The mean time of a launch in nanoseconds. */
        public double mean() {
            return (double) total / launches;
        }
    }

    private KernelTable(List<DeviceEvent> work) {
        this.work = work;
    }

    /** All work of a trace. */
    public static KernelTable of(Trace trace) {
        return new KernelTable(trace.work());
    }

    /** The single launches, stream by stream in the order of starts. */
    public List<DeviceEvent> launches() {
        return work;
    }

    /** The time of all launches in nanoseconds; what ran at once on two streams counts twice. */
    public long total() {
        return work.stream().mapToLong(DeviceEvent::duration).sum();
    }

    /**
     * The time in which at least one launch ran, in nanoseconds: a card is busy once, whatever its streams do. Cards
     * add up.
     */
    public long busy() {
        Map<Integer, List<DeviceEvent>> cards =
                group(work, event -> event.stream().device());
        long busy = 0;
        for (List<DeviceEvent> card : cards.values()) {
            busy += Intervals.during(card).total();
        }
        return busy;
    }

    /** A row a kernel, the longest total first; among equals by name. */
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

    /** The launches for which this holds. */
    public KernelTable filter(Predicate<DeviceEvent> condition) {
        return new KernelTable(work.stream().filter(condition).toList());
    }

    /** Launches of these kinds. */
    public KernelTable of(KernelKind... kinds) {
        return filter(event -> List.of(kinds).contains(event.kernelKind()));
    }

    /** Launches from inside a range of this name, at any depth; see {@link HostEvent#range} for backward passes. */
    public KernelTable inside(String range) {
        return filter(event -> event.range().contains(range));
    }

    /** Launches of the backward pass of what ran inside a range of this name; see {@link DeviceEvent#forwardRange}. */
    public KernelTable gradientOf(String range) {
        return filter(event -> event.forwardRange().contains(range));
    }

    /** Launches from a step, as {@link Profiler#step} marks them; the first is 0. */
    public KernelTable step(int number) {
        return filter(event -> event.step() == number);
    }

    /** A table for each kind that occurs, the longest total first. */
    public Map<KernelKind, KernelTable> byKind() {
        return by(DeviceEvent::kernelKind);
    }

    /** A table for each path of ranges that kernels were started in, the longest total first. */
    public Map<List<String>, KernelTable> byRange() {
        return by(DeviceEvent::range);
    }

    /** A table for each path of ranges whose backward pass started kernels, the longest total first. */
    public Map<List<String>, KernelTable> byForwardRange() {
        return filter(event -> !event.forwardRange().isEmpty()).by(DeviceEvent::forwardRange);
    }

    private <K> Map<K, KernelTable> by(Function<DeviceEvent, K> key) {
        Map<K, KernelTable> tables = new LinkedHashMap<>();
        group(work, key).entrySet().stream()
                .map(group -> Map.entry(group.getKey(), new KernelTable(group.getValue())))
                .sorted(Comparator.comparingLong((Map.Entry<K, KernelTable> group) ->
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
     * A row a kernel: {@code kernel}, {@code kind}, {@code launches}, {@code total [ms]}, {@code mean [µs]},
     * {@code share [%]}.
     */
    public Table table() {
        var kernel = StringColumn.create("kernel");
        var kind = StringColumn.create("kind");
        var launches = LongColumn.create("launches");
        var total = DoubleColumn.create("total [ms]");
        var mean = DoubleColumn.create("mean [µs]");
        var share = DoubleColumn.create("share [%]");
        long all = total();
        for (KernelRow row : rows()) {
            kernel.append(row.name);
            kind.append(row.kind.toString());
            launches.append(row.launches);
            total.append(row.total / NANOS_PER_MS);
            mean.append(row.mean() / NANOS_PER_US);
            share.append(percent(row.total, all));
        }
        return Table.create("kernels", kind, launches, total, mean, share, kernel);
    }

    /** A row a kind: {@code kind}, {@code launches}, {@code total [ms]}, {@code share [%]}. */
    public Table kindTable() {
        var name = StringColumn.create("kind");
        var launches = LongColumn.create("launches");
        var total = DoubleColumn.create("total [ms]");
        var share = DoubleColumn.create("share [%]");
        long all = total();
        byKind().forEach((kind, table) -> {
            name.append(kind.toString());
            launches.append(table.work.size());
            total.append(table.total() / NANOS_PER_MS);
            share.append(percent(table.total(), all));
        });
        return Table.create("kernels by kind", name, launches, total, share);
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
