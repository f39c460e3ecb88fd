package cs336.profile;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** Something the program did on one of its threads: a stretch of time with a name. Events of a thread nest. */
public final class HostEvent extends TraceEvent {
    static final long NONE = -1;

    private static final String STEP = "ProfilerStep#";
    private static final String GLOO = "gloo:";
    private static final String STARTS_COLLECTIVE = "c10d::";
    private static final String ENGINE = "autograd::engine::evaluate_function";

    private final HostEventKind kind;
    private final HostThread thread;
    private final HostArgs args;

    // Found out by Nesting and Links before anybody else sees the event.
    HostEvent parent;
    HostEvent forward;
    HostEvent waiting;
    long self;

    /**
     * Numbers by which a trace ties events together; {@link #NONE} where there is none.
     *
     * @param correlation of a call: the same as that of what it started on the device
     * @param external of an operator: its number in the trace
     * @param sequence of an operator: that of the autograd node it makes or is
     * @param forwardThread of a node of the backward pass: the thread of its forward operator, in PyTorch's own
     *     counting
     * @param shapes of an operator's inputs as JSON, or an empty text
     */
    record HostArgs(long correlation, long external, long sequence, long forwardThread, String shapes) {}

    HostEvent(HostEventKind kind, String name, HostThread thread, long start, long duration, HostArgs args) {
        super(name, start, duration);
        this.kind = kind;
        this.thread = thread;
        this.args = args;
    }

    /** What it is. */
    public HostEventKind kind() {
        return kind;
    }

    /** Where it ran. */
    public HostThread thread() {
        return thread;
    }

    /** The part of its duration in which no event inside it ran. */
    public long self() {
        return self;
    }

    /** The event that it is directly inside of, on the same thread, or null. */
    public HostEvent parent() {
        return parent;
    }

    /**
     * For a node of the backward pass, the operator of the forward pass that made it; otherwise null. Tied by
     * autograd's sequence number: the last operator that began with the node's number.
     */
    public HostEvent forward() {
        return forward;
    }

    /** The shapes of an operator's inputs as JSON, as in {@code [[8,64],[64,64]]}; an empty text where not recorded. */
    public String shapes() {
        return args.shapes;
    }

    HostArgs args() {
        return args;
    }

    boolean isStep() {
        return kind == HostEventKind.RANGE && name().startsWith(STEP);
    }

    /**
     * Whether a name of the profiler's, as in {@code gloo:all_reduce}, is that of a collective that threads carry out.
     */
    static boolean isCollective(String name) {
        return name.startsWith(GLOO);
    }

    /** Whether it is an operator that computes; see {@link Activity}. */
    boolean isComputation() {
        return kind == HostEventKind.OP && !isEngine() && !name().startsWith(STARTS_COLLECTIVE);
    }

    boolean isEngine() {
        return kind == HostEventKind.OP && name().startsWith(ENGINE);
    }

    boolean isRange() {
        return kind == HostEventKind.RANGE && !isStep();
    }

    static String step(int number) {
        return STEP + number;
    }

    /**
     * The names of the ranges it is in, from the outside in, itself included if it is one. Steps are not among them.
     *
     * <p>PyTorch's engine runs backward passes of CUDA tensors on threads of its own, while the thread that asked for
     * one waits: the one that ran the forward pass. Events there count as inside the ranges in which it waits.
     */
    public List<String> range() {
        List<String> names = new ArrayList<>();
        for (HostEvent at = this; at != null; at = at.outer()) {
            if (at.isRange()) names.add(at.name());
        }
        Collections.reverse(names);
        return names;
    }

    /** Its number if it is in a step, as {@link Profiler#step} args them; otherwise -1. */
    public int step() {
        for (HostEvent at = this; at != null; at = at.outer()) {
            if (at.isStep()) {
                try {
                    return Integer.parseInt(at.name().substring(STEP.length()));
                } catch (NumberFormatException e) {
                    continue;
                }
            }
        }
        return -1;
    }

    /** The parent, or what the thread that waits for this one is in. */
    HostEvent outer() {
        return parent != null ? parent : waiting;
    }

    /** The forward operator of the innermost backward node around this event, or null. */
    HostEvent forwardOperator() {
        for (HostEvent at = this; at != null; at = at.parent) {
            if (at.forward != null) return at.forward;
        }
        return null;
    }

    /** The innermost operator around this event, itself included, or null. */
    HostEvent operator() {
        for (HostEvent at = this; at != null; at = at.parent) {
            if (at.kind == HostEventKind.OP) return at;
        }
        return null;
    }

    @Override
    public String toString() {
        return "%s %s at %d for %d ns on %s".formatted(kind, name(), start(), duration(), thread);
    }
}
