package cs336.profile;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** An event on a CPU thread, such as an operator, a range or a CUDA API call. The events of a thread nest. */
public final class HostEvent extends TraceEvent {
    static final long NONE = -1;

    private static final String STEP = "ProfilerStep#";
    private static final String GLOO = "gloo:";
    private static final String STARTS_COLLECTIVE = "c10d::";
    private static final String ENGINE = "autograd::engine::evaluate_function";

    private final HostEventKind kind;
    private final HostThread thread;
    private final HostArgs args;

    // Set by Nesting and Links while the trace is built.
    HostEvent parent;
    HostEvent forward;
    HostEvent waiting;
    long self;

    /**
     * Arguments of the event in the trace, by which it is related to other events; {@link #NONE} if absent.
     *
     * @param correlation id that a CUDA API call shares with the GPU work that it launched
     * @param external id of an operator
     * @param sequence autograd sequence number: of an operator, that of the node it creates; of a backward node, its
     *     own
     * @param forwardThread for a backward node, the thread of its forward operator in PyTorch's own numbering
     * @param shapes shapes of an operator's inputs as JSON; empty if not recorded
     */
    record HostArgs(long correlation, long external, long sequence, long forwardThread, String shapes) {}

    HostEvent(HostEventKind kind, String name, HostThread thread, long start, long duration, HostArgs args) {
        super(name, start, duration);
        this.kind = kind;
        this.thread = thread;
        this.args = args;
    }

    /** Returns the kind of event: a range, an operator, a CUDA API call etc. */
    public HostEventKind kind() {
        return kind;
    }

    /** Returns the thread that executed it. */
    public HostThread thread() {
        return thread;
    }

    /** Returns its duration without nested events, in nanoseconds. */
    public long self() {
        return self;
    }

    /** Returns the innermost event on the same thread that contains it, or null. */
    public HostEvent parent() {
        return parent;
    }

    /**
     * Returns the forward operator that created this backward node; null for all other events. It is the last operator
     * that started with the sequence number of the node.
     */
    public HostEvent forward() {
        return forward;
    }

    /** Returns the shapes of an operator's inputs as JSON, as in {@code [[8,64],[64,64]]}; empty if not recorded. */
    public String shapes() {
        return args.shapes;
    }

    HostArgs args() {
        return args;
    }

    boolean isStep() {
        return kind == HostEventKind.RANGE && name().startsWith(STEP);
    }

    /** Returns whether an event name, such as {@code gloo:all_reduce}, is that of a collective on a Gloo thread. */
    static boolean isCollective(String name) {
        return name.startsWith(GLOO);
    }

    /** Returns whether this operator counts as computation; see {@link Activity}. */
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
     * Returns the names of the ranges that contain it, outermost first, including its own name if it is a range. Steps
     * are left out.
     *
     * <p>PyTorch runs the backward pass of CUDA tensors on engine threads while the thread that called
     * {@code backward()} waits. Events on engine threads count as inside the ranges of the waiting thread.
     */
    public List<String> range() {
        List<String> names = new ArrayList<>();
        for (HostEvent at = this; at != null; at = at.outer()) {
            if (at.isRange()) {
                names.add(at.name());
            }
        }
        Collections.reverse(names);
        return names;
    }

    /** Returns the number of the step that contains it, see {@link Profiler#step}; -1 outside all steps. */
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

    /** Returns the parent or, without one, the innermost event of the thread that waits for this one. */
    HostEvent outer() {
        return parent != null ? parent : waiting;
    }

    /** Returns the forward operator of the innermost backward node that contains this event, or null. */
    HostEvent forwardOperator() {
        for (HostEvent at = this; at != null; at = at.parent) {
            if (at.forward != null) {
                return at.forward;
            }
        }
        return null;
    }

    /** Returns the innermost operator that contains this event, including the event itself, or null. */
    HostEvent operator() {
        for (HostEvent at = this; at != null; at = at.parent) {
            if (at.kind == HostEventKind.OP) {
                return at;
            }
        }
        return null;
    }

    @Override
    public String toString() {
        return "%s %s at %,d for %,d ns on %s".formatted(kind, name(), start(), duration(), thread);
    }
}
