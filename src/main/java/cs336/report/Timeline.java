package cs336.report;

import cs336.profile.DeviceEvent;
import cs336.profile.HostEvent;
import cs336.profile.HostThread;
import cs336.profile.KernelKind;
import cs336.profile.Trace;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;

/**
 * A picture of who works when: on top the named ranges of each thread, below them each stream of each card with a row for what it
 * computes and, where it communicates, one for that. A gap is time in which nothing ran.
 *
 * <pre>{@code
 * Timeline.of(trace).lastStep().figure("timeline", "A training step");
 * Timeline.of(trace).during("layers.3", 0).figure("a-layer", "Kernels of one layer");
 * }</pre>
 */
public final class Timeline {
    private static final double NANOS_PER_MS = 1e6;
    private static final int DEEPEST = 5;

    private final Trace trace;
    private long from = Long.MAX_VALUE;
    private long to = Long.MIN_VALUE;
    private int width = 1100;

    /**
     * A row of the picture.
     *
     * @param label in front of it
     * @param bars in the order of their begins
     */
    record Lane(String label, List<Bar> bars) {}

    /**
     * A stretch of time.
     *
     * @param name is written into it where it fits and {@code kind} is null
     * @param kind of a kernel, or null for a range
     * @param depth of a range
     * @param start in milliseconds from the picture's left edge
     * @param end likewise
     */
    record Bar(String name, KernelKind kind, int depth, double start, double end) {}

    private Timeline(Trace trace) {
        this.trace = trace;
        trace.host().forEach(event -> include(event.start(), event.end()));
        trace.work().forEach(event -> include(event.start(), event.end()));
        if (from > to) throw new IllegalArgumentException("trace must not be empty: it has no event");
    }

    private void include(long start, long end) {
        from = Math.min(from, start);
        to = Math.max(to, end);
    }

    /** All that a trace has. */
    public static Timeline of(Trace trace) {
        return new Timeline(trace);
    }

    /**
     * A part of it.
     *
     * @param begin in nanoseconds, as events have them
     * @param end likewise, after {@code begin}
     */
    public Timeline between(long begin, long end) {
        if (begin >= end) throw new IllegalArgumentException("begin " + begin + " must be before end " + end);
        from = begin;
        to = end;
        return this;
    }

    /** The last step that was marked, or everything where none was: from its first event to its last, on threads and cards. */
    public Timeline lastStep() {
        int last = trace.ranges().stream().mapToInt(HostEvent::step).max().orElse(-1);
        if (last < 0) return this;
        from = Long.MAX_VALUE;
        to = Long.MIN_VALUE;
        trace.ranges().stream()
                .filter(event -> event.step() == last)
                .forEach(event -> include(event.start(), event.end()));
        trace.work().stream()
                .filter(event -> event.step() == last)
                .forEach(event -> include(event.start(), event.end()));
        return this;
    }

    /**
     * The time in which a range was open or its kernels ran.
     *
     * @param range its name
     * @param occurrence which of them; 0 is the first, -1 the last
     * @throws IllegalArgumentException if there are not so many
     */
    public Timeline during(String range, int occurrence) {
        List<HostEvent> all = trace.ranges().stream()
                .filter(event -> event.name().equals(range))
                .toList();
        int index = occurrence < 0 ? all.size() + occurrence : occurrence;
        if (index < 0 || index >= all.size()) {
            throw new IllegalArgumentException(
                    "occurrence " + occurrence + " of range '" + range + "' is not there; there are " + all.size());
        }
        HostEvent open = all.get(index);
        from = open.start();
        to = open.end();
        for (DeviceEvent event : trace.work()) {
            if (event.launch() != null && isInside(event.launch(), open)) include(event.start(), event.end());
        }
        return this;
    }

    private static boolean isInside(HostEvent event, HostEvent around) {
        for (HostEvent at = event; at != null; at = at.parent()) if (at == around) return true;
        return false;
    }

    /** How wide the picture is, in pixels. */
    public Timeline width(int pixels) {
        width = pixels;
        return this;
    }

    /** Draws it. */
    public Figure figure(String name, String description) {
        List<Lane> lanes = lanes();
        List<KernelKind> kinds = lanes.stream()
                .flatMap(lane -> lane.bars.stream())
                .map(Bar::kind)
                .filter(kind -> kind != null)
                .distinct()
                .sorted()
                .toList();
        var panel = new TimelinePanel(lanes, kinds, (to - from) / NANOS_PER_MS, width);
        return new Figure(name, description, width, panel.pixels(), List.of(panel));
    }

    /** From the top down. */
    List<Lane> lanes() {
        var lanes = new ArrayList<Lane>();
        Map<HostThread, List<HostEvent>> threads = trace.ranges().stream()
                .filter(event -> event.start() < to && event.end() > from)
                .collect(Collectors.groupingBy(HostEvent::thread, TreeMap::new, Collectors.toList()));
        threads.forEach((thread, ranges) -> {
            Map<Integer, List<Bar>> depths = new TreeMap<>();
            for (HostEvent range : ranges) {
                int depth = range.range().size() - 1;
                if (depth > DEEPEST) continue;
                depths.computeIfAbsent(depth, d -> new ArrayList<>())
                        .add(bar(range.name(), null, depth, range.start(), range.end()));
            }
            String name = threads.size() == 1 ? "ranges" : trace.threadNames().getOrDefault(thread, "" + thread);
            depths.forEach((depth, bars) -> lanes.add(new Lane(lanes.isEmpty() || depth == 0 ? name : "", bars)));
        });
        Map<DeviceEvent.Stream, List<DeviceEvent>> streams = new LinkedHashMap<>();
        for (DeviceEvent event : trace.work()) {
            if (event.start() < to && event.end() > from) {
                streams.computeIfAbsent(event.stream(), s -> new ArrayList<>()).add(event);
            }
        }
        boolean severalCards = streams.keySet().stream()
                        .map(DeviceEvent.Stream::device)
                        .collect(Collectors.toCollection(TreeSet::new))
                        .size()
                > 1;
        streams.forEach((stream, events) -> {
            String label = (severalCards ? "card " + stream.device() + ", " : "") + "stream " + stream.stream();
            Map<Boolean, List<DeviceEvent>> parts = events.stream()
                    .collect(Collectors.partitioningBy(event -> event.kernelKind() == KernelKind.COMMUNICATION));
            if (!parts.get(false).isEmpty()) lanes.add(new Lane(label + ": compute", bars(parts.get(false))));
            if (!parts.get(true).isEmpty()) lanes.add(new Lane(label + ": communication", bars(parts.get(true))));
        });
        return lanes;
    }

    private List<Bar> bars(List<DeviceEvent> events) {
        return events.stream()
                .map(event -> bar(event.name(), event.kernelKind(), 0, event.start(), event.end()))
                .toList();
    }

    private Bar bar(String name, KernelKind kind, int depth, long start, long end) {
        return new Bar(
                name,
                kind,
                depth,
                (Math.max(start, from) - from) / NANOS_PER_MS,
                (Math.min(end, to) - from) / NANOS_PER_MS);
    }
}
