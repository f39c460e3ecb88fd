package cs336.profile;

import java.util.List;

/** Something a card did on one of its streams. */
public final class DeviceEvent extends TraceEvent {
    private final DeviceEventKind kind;
    private final DeviceStream stream;
    private final DeviceArgs args;
    private final HostEvent launch;
    private final KernelKind kernelKind;

    /**
     * What a trace says besides.
     *
     * @param correlation that of the call that started it, or {@link HostEvent#NONE}
     * @param external the number of the operator that started it, or {@link HostEvent#NONE}
     * @param bytes how much was copied or set, or {@link HostEvent#NONE}
     */
    record DeviceArgs(long correlation, long external, long bytes) {}

    DeviceEvent(
            DeviceEventKind kind,
            String name,
            DeviceStream stream,
            long start,
            long duration,
            DeviceArgs args,
            HostEvent launch) {
        super(name, start, duration);
        this.kind = kind;
        this.stream = stream;
        this.args = args;
        this.launch = launch;
        kernelKind = KernelKind.of(kind, name, launch);
    }

    /** What it is. */
    public DeviceEventKind kind() {
        return kind;
    }

    /** Where it ran. */
    public DeviceStream stream() {
        return stream;
    }

    /** Bytes copied or set; -1 where it is a kernel or the trace does not say. */
    public long bytes() {
        return args.bytes;
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

    DeviceArgs args() {
        return args;
    }

    @Override
    public String toString() {
        return "%s %s at %d for %d ns on %s".formatted(kind, name(), start(), duration(), stream);
    }
}
