package cs336.profile;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Collections;
import java.util.Comparator;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What a program did, event by event: operators, named ranges and CUDA calls on its threads, kernels and copies on the
 * streams of its cards, allocations. Kept as recorded, in whole nanoseconds; nothing is rounded on the way from the
 * file to a sum.
 *
 * <p>Read from the JSON of Kineto, which {@link Profiler} and Python's {@code torch.profiler} write and Perfetto and
 * Chrome open. What is tied to what is found out once, when a trace is read: which event is inside which, which call
 * started which kernel, and which forward operator a node of the backward pass belongs to.
 */
public final class Trace {
    private final long baseTime;
    private final List<HostEvent> host;
    private final List<DeviceEvent> device;
    private final List<MemoryEvent> memory;
    private final Map<HostThread, String> threadNames;

    Trace(
            long baseTime,
            List<HostEvent> host,
            List<DeviceEvent> device,
            List<MemoryEvent> memory,
            Map<HostThread, String> threadNames) {
        this.baseTime = baseTime;
        this.host = List.copyOf(host);
        this.device = List.copyOf(device);
        this.memory = List.copyOf(memory);
        this.threadNames = Map.copyOf(threadNames);
    }

    /**
     * Reads a trace, compressed if the file's name ends in {@code .gz}. Events of other sorts than those of this class
     * are passed over. Takes about as much memory as the uncompressed file has bytes, or less.
     *
     * @throws IOException if the file cannot be read
     * @throws IllegalArgumentException if it is no trace; the message names the file and what is wrong in it
     */
    public static Trace read(Path file) throws IOException {
        return TraceReader.read(file);
    }

    /**
     * Writes the trace for Perfetto, Chrome and {@link #read}, compressed if the file's name ends in {@code .gz}.
     *
     * @throws IOException if the file cannot be written
     */
    public void write(Path file) throws IOException {
        TraceWriter.write(this, file);
    }

    /** The moment from which starts count, in nanoseconds since 1970; 0 where the trace does not say. */
    public long baseTime() {
        return baseTime;
    }

    /** Everything on threads: thread by thread, each in the order of starts, outer events before inner ones. */
    public List<HostEvent> host() {
        return host;
    }

    /** Everything on cards: stream by stream, each in the order of starts. */
    public List<DeviceEvent> device() {
        return device;
    }

    /** Kernels, copies and memory sets: what {@link #device} has besides ranges. */
    public List<DeviceEvent> work() {
        return device.stream().filter(event -> event.kind().isWork()).toList();
    }

    /** Allocations in the order of time, if they were recorded. */
    public List<MemoryEvent> memory() {
        return memory;
    }

    /** The named ranges on threads, without steps. */
    public List<HostEvent> ranges() {
        return host.stream().filter(HostEvent::isRange).toList();
    }

    /** What the trace calls its threads; a stream of a card is there as a thread of a process of the card's number. */
    public Map<HostThread, String> threadNames() {
        return threadNames;
    }

    /**
     * The time that kernels, copies and memory sets took, in nanoseconds. Those that ran at once on two streams count
     * twice.
     */
    public long deviceTime() {
        return device.stream()
                .filter(event -> event.kind().isWork())
                .mapToLong(DeviceEvent::duration)
                .sum();
    }

    /** The time in which threads did anything that was recorded, in nanoseconds, added up over threads. */
    public long hostTime() {
        return host.stream().mapToLong(HostEvent::self).sum();
    }

    /**
     * What belongs to one step: its events on threads, and what they started on cards. Allocations are those of its
     * time.
     *
     * @param number as {@link Profiler#step} marks them; the first is 0
     * @throws IllegalArgumentException if no event is of that step
     */
    public Trace step(int number) {
        List<HostEvent> inside =
                host.stream().filter(event -> event.step() == number).toList();
        if (inside.isEmpty()) throw new IllegalArgumentException("step " + number + " is not in the trace");
        long from = inside.stream().mapToLong(HostEvent::start).min().orElseThrow();
        long to = inside.stream().mapToLong(HostEvent::end).max().orElseThrow();
        return new Trace(
                baseTime,
                inside,
                device.stream().filter(event -> event.step() == number).toList(),
                memory.stream()
                        .filter(change -> change.time() >= from && change.time() <= to)
                        .toList(),
                threadNames);
    }

    /**
     * The same without operators and allocations: steps, ranges, what ran on cards and the calls that started it. Small
     * enough to be kept, and all that a picture and {@link Overlap} of cards need.
     */
    public Trace withoutOperators() {
        Set<HostEvent> launches = Collections.newSetFromMap(new IdentityHashMap<>());
        device.forEach(event -> launches.add(event.launch()));
        return new Trace(
                baseTime,
                host.stream()
                        .filter(event -> event.kind() == HostEventKind.RANGE || launches.contains(event))
                        .toList(),
                device,
                List.of(),
                threadNames);
    }

    /** The numbers of the steps that were marked, in order. */
    public int[] steps() {
        return host.stream()
                .filter(HostEvent::isStep)
                .mapToInt(HostEvent::step)
                .filter(number -> number >= 0)
                .sorted()
                .distinct()
                .toArray();
    }

    /** Whether there is nothing but steps and the profiler's own wait for the card. */
    boolean isEmpty() {
        return device.isEmpty()
                && host.stream().allMatch(event -> event.isStep() || event.kind() == HostEventKind.CALL);
    }

    /** A step is begun before it is known whether anything will happen in it. */
    Trace withoutEmptyLastStep() {
        HostEvent last = host.stream()
                .filter(HostEvent::isStep)
                .max(Comparator.comparingLong(HostEvent::start))
                .orElse(null);
        boolean keep = last == null
                || last.step() == 0
                || host.stream()
                        .anyMatch(
                                event -> event != last && event.start() >= last.start() && event.start() <= last.end());
        if (keep) return this;
        List<HostEvent> rest = host.stream().filter(event -> event != last).toList();
        return new Trace(baseTime, rest, device, memory, threadNames);
    }
}
