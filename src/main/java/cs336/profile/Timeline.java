package cs336.profile;

import static cs336.units.UnitFactors.NANOS_PER_MS;

import cs336.bench.ArgumentCheck;
import cs336.charts.ChartStyle;
import cs336.charts.Figure;
import java.awt.Color;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A timeline figure of one or several traces. At the top are the named ranges of each CPU thread, below them the CUDA
 * streams, each with a row for computation (or copies, if it has no other work) and, if it communicates, a row for
 * communication. Where Gloo communicates, the CPU threads have these two rows as well. A gap is time in which nothing
 * ran.
 *
 * <pre>{@code
 * Timeline.of(trace).lastStep().figure("timeline", "A training step");
 * Timeline.of(trace).during("layers.3", 0).figure("a-layer", "Kernels of one layer");
 * Timeline.ofRanks(Map.of("rank 0", trace, "rank 1", other)).lastStep().levels(1).figure("ranks", "A step on two GPUs");
 * }</pre>
 */
public final class Timeline {
    private static final int WIDTH = 1100;
    private static final int MAX_LEVELS = 6;
    private static final String COMPUTATION = "computation";

    /** All kinds in the order of the legend. */
    private static final List<String> KINDS = Stream.concat(
                    Arrays.stream(KernelKind.values()).map(KernelKind::toString), Stream.of(COMPUTATION))
            .toList();

    private final List<ProcessTrace> processes;
    private long from = Long.MAX_VALUE;
    private long to = Long.MIN_VALUE;
    private int levels = MAX_LEVELS;

    /**
     * The trace of one process.
     *
     * @param name label in front of its rows; empty if it is the only process
     * @param shift offset from the clock of the trace to that of the figure, in nanoseconds
     */
    private record ProcessTrace(String name, Trace trace, long shift) {
        long begin() {
            return Stream.concat(
                                    trace.host().stream().map(HostEvent::start),
                                    trace.work().stream().map(DeviceEvent::start))
                            .min(Comparator.naturalOrder())
                            .orElseThrow(() -> new IllegalArgumentException(
                                    "trace " + name + " must have at least one event, not none"))
                    + shift;
        }

        long end() {
            return Stream.concat(
                                    trace.host().stream().map(HostEvent::end),
                                    trace.work().stream().map(DeviceEvent::end))
                            .max(Comparator.naturalOrder())
                            .orElseThrow()
                    + shift;
        }
    }

    /**
     * A row of the figure.
     *
     * @param label label of the row
     * @param bars bars ordered by start
     */
    public record Lane(String label, List<Bar> bars) {}

    /**
     * A bar of the figure: the interval in which a range was open or a kernel ran.
     *
     * @param name text inside the bar if it fits and {@code kind} is null
     * @param kind kind of the kernel, {@value #COMPUTATION} for CPU threads, or null for a range
     * @param depth nesting depth of a range
     * @param start start in milliseconds from the left edge of the figure
     * @param end end in milliseconds from the left edge of the figure
     */
    public record Bar(String name, String kind, int depth, double start, double end) {}

    private Timeline(List<ProcessTrace> processes) {
        this.processes = processes;
        processes.forEach(process -> include(process.begin(), process.end()));
    }

    private void include(long start, long end) {
        from = Math.min(from, start);
        to = Math.max(to, end);
    }

    /**
     * Returns the timeline of a whole trace.
     *
     * @throws IllegalArgumentException if the trace has no events
     */
    public static Timeline of(Trace trace) {
        return new Timeline(List.of(new ProcessTrace("", trace, 0)));
    }

    /**
     * Returns the timeline of several processes, one below the other, by name and in the order of the map. Traces of
     * one host share its clock and are aligned by it. If the traces do not overlap in time, each starts at the left
     * edge.
     *
     * @throws IllegalArgumentException if there are no traces or one is empty
     */
    public static Timeline ofRanks(Map<String, Trace> traces) {
        if (traces.isEmpty()) {
            throw new IllegalArgumentException("traces must have at least one trace, not none");
        }
        var processes = new ArrayList<ProcessTrace>();
        long base = traces.values().iterator().next().baseTime();
        traces.forEach((name, trace) -> processes.add(new ProcessTrace(name, trace, trace.baseTime() - base)));
        long latestBegin =
                processes.stream().mapToLong(ProcessTrace::begin).max().orElseThrow();
        long earliestEnd = processes.stream().mapToLong(ProcessTrace::end).min().orElseThrow();
        if (latestBegin < earliestEnd) {
            return new Timeline(processes);
        }
        return new Timeline(processes.stream()
                .map(process -> new ProcessTrace(process.name, process.trace, process.shift - process.begin()))
                .toList());
    }

    /**
     * Limits the timeline to an interval.
     *
     * @param begin start in nanoseconds after {@link Trace#baseTime} of the first trace
     * @param end end in nanoseconds on the same clock, after {@code begin}
     * @throws IllegalArgumentException if {@code begin} is not before {@code end}
     */
    public Timeline between(long begin, long end) {
        if (begin >= end) {
            throw new IllegalArgumentException("begin " + begin + " must be before end " + end);
        }
        from = begin;
        to = end;
        return this;
    }

    /**
     * Limits the timeline to the last marked step, from its first to its last event on any thread or GPU. Without
     * marked steps it shows everything.
     */
    public Timeline lastStep() {
        from = Long.MAX_VALUE;
        to = Long.MIN_VALUE;
        for (ProcessTrace process : processes) {
            int[] steps = process.trace.steps();
            int last = steps.length == 0 ? -1 : steps[steps.length - 1];
            if (last < 0) {
                include(process.begin(), process.end());
            }
            process.trace.host().stream()
                    .filter(event -> last >= 0 && event.step() == last && !event.isStep())
                    .forEach(event -> include(event.start() + process.shift, event.end() + process.shift));
            process.trace.work().stream()
                    .filter(event -> last >= 0 && event.step() == last)
                    .forEach(event -> include(event.start() + process.shift, event.end() + process.shift));
        }
        return this;
    }

    /**
     * Limits the timeline to the time in which a range was open or its kernels ran, in any of the traces.
     *
     * @param range name of the range
     * @param occurrence index of the occurrence; 0 is the first, -1 the last
     * @throws IllegalArgumentException if a trace has no such occurrence
     */
    public Timeline during(String range, int occurrence) {
        from = Long.MAX_VALUE;
        to = Long.MIN_VALUE;
        for (ProcessTrace process : processes) {
            List<HostEvent> all = process.trace.ranges().stream()
                    .filter(event -> event.name().equals(range))
                    .toList();
            int index = occurrence < 0 ? all.size() + occurrence : occurrence;
            if (index < 0 || index >= all.size()) {
                throw new IllegalArgumentException("occurrence " + occurrence + " of range '" + range
                        + "' does not exist; the trace has " + all.size());
            }
            HostEvent open = all.get(index);
            include(open.start() + process.shift, open.end() + process.shift);
            for (DeviceEvent event : process.trace.work()) {
                if (event.launch() != null && isInside(event.launch(), open)) {
                    include(event.start() + process.shift, event.end() + process.shift);
                }
            }
        }
        return this;
    }

    private static boolean isInside(HostEvent event, HostEvent around) {
        for (HostEvent at = event; at != null; at = at.outer()) {
            if (at == around) {
                return true;
            }
        }
        return false;
    }

    /**
     * Sets the number of levels of nested ranges in the figure, starting with the outermost; at most
     * {@value #MAX_LEVELS}, which is the default.
     */
    public Timeline levels(int count) {
        levels = Math.min(ArgumentCheck.atLeast("levels", 0, count), MAX_LEVELS);
        return this;
    }

    /** Returns the figure; its description is the alternative text. */
    public Figure figure(String name, String description) {
        List<Lane> lanes = lanes();
        List<String> kinds = lanes.stream()
                .flatMap(lane -> lane.bars.stream())
                .map(Bar::kind)
                .filter(kind -> kind != null)
                .distinct()
                .sorted(Comparator.comparingInt(KINDS::indexOf))
                .toList();
        var panel = new TimelinePanel(lanes, kinds, Timeline::color, (to - from) / NANOS_PER_MS, WIDTH);
        return new Figure(name, description, WIDTH, panel.pixels(), List.of(panel));
    }

    /** Returns the colour of a kind, the same in all timelines. */
    private static Color color(String kind) {
        if (kind.equals(COMPUTATION)) {
            return ChartStyle.color(1);
        }
        return ChartStyle.color(
                switch (KernelKind.valueOf(kind.toUpperCase(Locale.ROOT))) {
                    case COMMUNICATION -> 0;
                    case MATMUL -> 1;
                    case OURS -> 2;
                    case COPY -> 3;
                    case REDUCTION -> 4;
                    case ELEMENTWISE -> 5;
                    case ATTENTION, SOFTMAX -> 6;
                    case OTHER -> 7;
                });
    }

    /** Returns the rows from top to bottom. */
    List<Lane> lanes() {
        return processes.stream()
                .flatMap(process -> new LaneBuilder(process).lanes().stream())
                .toList();
    }

    /** A builder of the rows of one process. */
    private final class LaneBuilder {
        private final ProcessTrace process;
        private final List<Lane> lanes = new ArrayList<>();

        LaneBuilder(ProcessTrace process) {
            this.process = process;
        }

        List<Lane> lanes() {
            addRanges();
            addThreads();
            addStreams();
            return lanes;
        }

        private void add(String label, List<Bar> bars) {
            boolean named = !process.name.isEmpty() && !label.isEmpty();
            if (!bars.isEmpty()) {
                lanes.add(new Lane(named ? process.name + ", " + label : label, bars));
            }
        }

        private void addRanges() {
            Map<HostThread, List<HostEvent>> threads = process.trace.ranges().stream()
                    .filter(event -> isShown(event.start(), event.end()))
                    .collect(Collectors.groupingBy(HostEvent::thread, TreeMap::new, Collectors.toList()));
            threads.forEach((thread, ranges) -> {
                Map<Integer, List<Bar>> depths = new TreeMap<>();
                for (HostEvent range : ranges) {
                    int depth = range.range().size() - 1;
                    if (depth >= levels) {
                        continue;
                    }
                    depths.computeIfAbsent(depth, d -> new ArrayList<>())
                            .add(bar(range.name(), null, depth, range.start(), range.end()));
                }
                String name = threads.size() == 1 ? "ranges" : "ranges of " + threadName(thread, threads.keySet());
                depths.forEach((depth, bars) -> add(lanes.isEmpty() || depth == 0 ? name : "", bars));
            });
        }

        /**
         * Returns {@code thread gradients} for a thread that PyTorch's trace calls {@code thread 42 (gradients)}, or
         * the name in the trace if several threads have the same.
         */
        private String threadName(HostThread thread, Set<HostThread> all) {
            Function<HostThread, String> named =
                    t -> process.trace.threadNames().getOrDefault(t, "thread " + t.thread());
            Function<HostThread, String> own =
                    named.andThen(name -> name.replaceFirst("^thread \\d+ \\((.+)\\)$", "thread $1"));
            String name = own.apply(thread);
            return all.stream().map(own).filter(name::equals).count() == 1 ? name : named.apply(thread);
        }

        /** Adds the computation of CPU threads and the collectives of Gloo, if there are any. */
        private void addThreads() {
            List<HostEvent> collectives = process.trace.host().stream()
                    .filter(event -> event.kind() == HostEventKind.COLLECTIVE)
                    .toList();
            if (collectives.isEmpty()) {
                return;
            }
            if (process.trace.work().isEmpty()) {
                for (Activity activity : Activity.of(process.trace)) {
                    add(
                            "threads: " + COMPUTATION,
                            activity.computation().intervals().stream()
                                    .filter(time -> isShown(time.start(), time.end()))
                                    .map(time -> bar(COMPUTATION, COMPUTATION, 0, time.start(), time.end()))
                                    .toList());
                }
            }
            add(
                    "Gloo: " + KernelKind.COMMUNICATION,
                    collectives.stream()
                            .filter(event -> isShown(event.start(), event.end()))
                            .map(event -> bar(
                                    event.name(), KernelKind.COMMUNICATION.toString(), 0, event.start(), event.end()))
                            .toList());
        }

        private void addStreams() {
            Map<DeviceStream, List<DeviceEvent>> streams = new LinkedHashMap<>();
            for (DeviceEvent event : process.trace.work()) {
                if (isShown(event.start(), event.end())) {
                    streams.computeIfAbsent(event.stream(), s -> new ArrayList<>())
                            .add(event);
                }
            }
            boolean severalDevices = streams.keySet().stream()
                            .map(DeviceStream::device)
                            .distinct()
                            .count()
                    > 1;
            streams.forEach((stream, events) -> {
                String label = (severalDevices ? "GPU " + stream.device() + ", " : "") + "stream " + stream.stream();
                Map<Boolean, List<DeviceEvent>> byCommunication = events.stream()
                        .collect(Collectors.partitioningBy(event -> event.kernelKind() == KernelKind.COMMUNICATION));
                List<DeviceEvent> others = byCommunication.get(false);
                boolean copies = others.stream().allMatch(event -> event.kernelKind() == KernelKind.COPY);
                add(label + (copies ? ": copy" : ": compute"), bars(others));
                add(label + ": communication", bars(byCommunication.get(true)));
            });
        }

        private List<Bar> bars(List<DeviceEvent> events) {
            return events.stream()
                    .map(event -> bar(event.name(), event.kernelKind().toString(), 0, event.start(), event.end()))
                    .toList();
        }

        private boolean isShown(long start, long end) {
            return start + process.shift < to && end + process.shift > from;
        }

        private Bar bar(String name, String kind, int depth, long start, long end) {
            return new Bar(
                    name,
                    kind,
                    depth,
                    (Math.max(start + process.shift, from) - from) / NANOS_PER_MS,
                    (Math.min(end + process.shift, to) - from) / NANOS_PER_MS);
        }
    }
}
