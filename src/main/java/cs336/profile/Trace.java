package cs336.profile;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Map;

/**
 * The events of a profiled program: operators, named ranges and CUDA API calls on CPU threads, kernels and copies on
 * CUDA streams, and allocations. Times are kept as recorded, in whole nanoseconds, without rounding.
 *
 * <p>A trace is read from Kineto's JSON format, which {@link Profiler} and Python's {@code torch.profiler} write and
 * Perfetto and Chrome display. Reading also resolves the relations between events: which event contains which, which
 * CUDA API call launched which kernel, and which forward operator a node of the backward pass belongs to.
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
     * Reads a trace, compressed if the file name ends in {@code .gz}. Skips kinds of events that this class does not
     * represent. Uses at most about as much memory as the size of the uncompressed file.
     *
     * @throws IOException if the file cannot be read
     * @throws IllegalArgumentException if the file is not a trace; the message names the file and the error
     */
    public static Trace read(Path file) throws IOException {
        return TraceReader.read(file);
    }

    /**
     * Writes the trace for Perfetto, Chrome and {@link #read}, compressed if the file name ends in {@code .gz}.
     *
     * @throws IOException if the file cannot be written
     */
    public void write(Path file) throws IOException {
        TraceWriter.write(this, file);
    }

    /** Returns the time that event times are relative to, in nanoseconds since 1970; 0 if the trace has none. */
    public long baseTime() {
        return baseTime;
    }

    /** Returns the events on CPU threads, ordered by thread and start, outer events before inner ones. */
    public List<HostEvent> host() {
        return host;
    }

    /** Returns the events on GPUs, ordered by stream and start. */
    public List<DeviceEvent> device() {
        return device;
    }

    /** Returns the kernels, memory copies and memory sets: the events of {@link #device} without ranges. */
    public List<DeviceEvent> work() {
        return device.stream().filter(event -> event.kind().isWork()).toList();
    }

    /** Returns the allocations and releases ordered by time; empty unless memory was recorded. */
    public List<MemoryEvent> memory() {
        return memory;
    }

    /** Returns the named ranges on CPU threads, without steps. */
    public List<HostEvent> ranges() {
        return host.stream().filter(HostEvent::isRange).toList();
    }

    /**
     * Returns the names of threads. A CUDA stream is listed as a thread of a process whose id is the index of the GPU.
     */
    public Map<HostThread, String> threadNames() {
        return threadNames;
    }

    /**
     * Returns the part of the trace that belongs to one step: its events on CPU threads, the GPU's events by
     * {@link DeviceEvent#step}, and the allocations made during the step.
     *
     * @param number number of the step, counted from 0 as by {@link Profiler#step}
     * @throws IllegalArgumentException if the trace has no event of that step
     */
    public Trace step(int number) {
        List<HostEvent> inside =
                host.stream().filter(event -> event.step() == number).toList();
        if (inside.isEmpty()) {
            throw new IllegalArgumentException("step " + number + " is not in the trace");
        }
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

    /** Returns the numbers of the marked steps in ascending order. */
    public int[] steps() {
        return host.stream()
                .filter(HostEvent::isStep)
                .mapToInt(HostEvent::step)
                .filter(number -> number >= 0)
                .sorted()
                .distinct()
                .toArray();
    }

    /** Returns whether the trace has only steps and the profiler's own synchronization with the GPU. */
    boolean isEmpty() {
        return device.isEmpty()
                && host.stream().allMatch(event -> event.isStep() || event.kind() == HostEventKind.CALL);
    }

    /** Returns the trace without the last step if nothing happened after the last {@link Profiler#step}. */
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
        if (keep) {
            return this;
        }
        List<HostEvent> rest = host.stream().filter(event -> event != last).toList();
        return new Trace(baseTime, rest, device, memory, threadNames);
    }
}
