package cs336.profile;

import java.util.List;

/** Something a card did on one of its streams. */
public final class DeviceEvent extends TraceEvent {
    /** What an event is. */
    public enum Kind {
        KERNEL,
        MEMCPY,
        MEMSET,
        /** No work: from the first to the last kernel of a {@link HostEvent.Kind#RANGE range}, as Kineto draws it. */
        RANGE;

        boolean isWork() {
            return this != RANGE;
        }
    }

    private final Kind kind;
    private final Stream stream;
    private final Marks marks;
    private final HostEvent launch;
    private final KernelKind kernelKind;

    /**
     * A queue of work for a card.
     *
     * @param device its card
     * @param stream its number on the card
     */
    public record Stream(int device, long stream) implements Comparable<Stream> {
        @Override
        public int compareTo(Stream other) {
            int order = Integer.compare(device, other.device);
            return order != 0 ? order : Long.compare(stream, other.stream);
        }
    }

    /**
     * What a trace says besides.
     *
     * @param correlation that of the call that started it, or {@link HostEvent#NONE}
     * @param external the number of the operator that started it, or {@link HostEvent#NONE}
     * @param bytes how much was copied or set, or {@link HostEvent#NONE}
     */
    record Marks(long correlation, long external, long bytes) {}

    DeviceEvent(Kind kind, String name, Stream stream, long start, long duration, Marks marks, HostEvent launch) {
        super(name, start, duration);
        this.kind = kind;
        this.stream = stream;
        this.marks = marks;
        this.launch = launch;
        kernelKind = KernelKind.of(kind, name, launch);
    }

    /** What it is. */
    public Kind kind() {
        return kind;
    }

    /** Where it ran. */
    public Stream stream() {
        return stream;
    }

    /** Bytes copied or set; -1 where it is a kernel or the trace does not say. */
    public long bytes() {
        return marks.bytes;
    }

    /** What sort of work it is. */
    public KernelKind kernelKind() {
        return kernelKind;
    }

    /**
     * The call that started it, found by its correlation number. Where the trace has no such call, the operator that it
     * names, if any; otherwise null.
     */
    public HostEvent launch() {
        return launch;
    }

    /** The innermost operator that started it, or null. */
    public HostEvent operator() {
        return launch == null ? null : launch.operator();
    }

    /** The names of the ranges that it was started in, from the outside in; see {@link HostEvent#range}. */
    public List<String> range() {
        return launch == null ? List.of() : launch.range();
    }

    /**
     * If it was started by a backward pass, the ranges of the forward operator whose gradient it belongs to; otherwise,
     * and where autograd gives no number that ties them, as for the accumulation of gradients, an empty list.
     */
    public List<String> forwardRange() {
        HostEvent operator = launch == null ? null : launch.forwardOperator();
        return operator == null ? List.of() : operator.range();
    }

    /** The step in which it was started, or -1. */
    public int step() {
        return launch == null ? -1 : launch.step();
    }

    Marks marks() {
        return marks;
    }

    @Override
    public String toString() {
        return "%s %s at %d for %d ns on %s".formatted(kind, name(), start(), duration(), stream);
    }
}
