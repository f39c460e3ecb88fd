package cs336.profile;

import java.util.List;

/** A kernel, memory copy or memory set on a CUDA stream. */
public final class DeviceEvent extends TraceEvent {
    private final DeviceEventKind kind;
    private final DeviceStream stream;
    private final DeviceArgs args;
    private final HostEvent launch;
    private final KernelKind kernelKind;

    /** The step during which it starts, if its launch is not in the trace; otherwise null. Set by {@link Links}. */
    HostEvent during;

    /**
     * Further arguments of the event in the trace.
     *
     * @param correlation correlation id of the call that launched it, or {@link HostEvent#NONE}
     * @param external id of the operator that launched it, or {@link HostEvent#NONE}
     * @param bytes bytes copied or set, or {@link HostEvent#NONE}
     */
    record DeviceArgs(long correlation, long external, long bytes) {}

    DeviceEvent(
            DeviceEventKind kind,
            String name,
            DeviceStream stream,
            long start,
            long duration,
            DeviceArgs args,
            HostEvent launch,
            KernelKind kernelKind) {
        super(name, start, duration);
        this.kind = kind;
        this.stream = stream;
        this.args = args;
        this.launch = launch;
        this.kernelKind = kernelKind;
    }

    /** Returns the kind of event: a kernel, a copy, a set or a range. */
    public DeviceEventKind kind() {
        return kind;
    }

    /** Returns whether it copies between the GPU and the host. */
    public boolean isHostTransfer() {
        return kind == DeviceEventKind.MEMCPY && (name().contains("HtoD") || name().contains("DtoH"));
    }

    /** Returns the stream that executed it. */
    public DeviceStream stream() {
        return stream;
    }

    /** Returns the bytes copied or set; -1 for a kernel or if the trace has no size. */
    public long bytes() {
        return args.bytes;
    }

    /** Returns the kind of work, classified by the name of the kernel and the operator that launched it. */
    public KernelKind kernelKind() {
        return kernelKind;
    }

    /**
     * Returns the CUDA API call that launched it, found by its correlation id. If the trace has no such call, returns
     * the operator that the event names, if any, otherwise null.
     */
    public HostEvent launch() {
        return launch;
    }

    /** Returns the innermost operator that launched it, or null. */
    public HostEvent operator() {
        return launch == null ? null : launch.operator();
    }

    /** Returns the names of the ranges in which it was launched, outermost first; see {@link HostEvent#range}. */
    public List<String> range() {
        return launch == null ? List.of() : launch.range();
    }

    /**
     * Returns the ranges of the forward operator whose gradient this event computes, outermost first. The list is empty
     * for events outside the backward pass and for backward nodes without a sequence number, such as gradient
     * accumulation.
     */
    public List<String> forwardRange() {
        HostEvent operator = launch == null ? null : launch.forwardOperator();
        return operator == null ? List.of() : operator.range();
    }

    /**
     * Returns the step in which it was launched, or -1. An event whose launch is not in the trace, like the kernels of
     * a CUDA graph, belongs to the step during which it starts.
     */
    public int step() {
        if (launch != null) {
            return launch.step();
        }
        return during == null ? -1 : during.step();
    }

    DeviceArgs args() {
        return args;
    }

    @Override
    public String toString() {
        return "%s %s at %,d for %,d ns on %s".formatted(kind, name(), start(), duration(), stream);
    }
}
