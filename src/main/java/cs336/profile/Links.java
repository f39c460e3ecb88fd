package cs336.profile;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * The relations between events of different threads. A backward node is linked to the forward operator that created it,
 * and an autograd engine thread to the thread that waits for it. Other threads, and GPU work whose launch is not in the
 * trace, are linked to the steps in which they work.
 *
 * <p>Every operator that may create a backward node carries the sequence number that the node would get. Operators that
 * create no node carry the number of the next one, so the last operator with a number is the creator. Each thread
 * counts separately. A backward node contains its number and its forward thread, but the thread only in PyTorch's own
 * numbering, which no other event uses. The trace's flow events from forward to backward identify the thread. In a
 * trace without flow events, a number that several threads used stays unresolved.
 */
final class Links {
    /** A flow event of the trace, drawn as an arrow from a forward operator to its backward node. */
    record FlowEvent(EventStart from, EventStart to) {}

    /** The thread and start time by which a flow event refers to an event. */
    record EventStart(HostThread thread, long start) {}

    private final List<HostEvent> events;

    private Links(List<HostEvent> events) {
        this.events = events;
    }

    /** Sets {@code forward} and {@code waiting} of events whose nesting is already resolved. */
    static void resolve(List<HostEvent> events, List<FlowEvent> flows) {
        var links = new Links(events);
        links.linkNodes(flows);
        links.linkEngineThreads();
        links.linkOtherThreads();
    }

    private void linkNodes(List<FlowEvent> flows) {
        Map<EventStart, List<HostEvent>> operators = new HashMap<>(); // by start or end of a flow event
        for (FlowEvent flow : flows) {
            operators.put(flow.from, new ArrayList<>(1));
            operators.put(flow.to, new ArrayList<>(1));
        }
        Map<Long, List<HostEvent>> creators = new HashMap<>(); // by sequence number
        for (HostEvent event : events) {
            if (event.kind() != HostEventKind.OP || event.args().sequence() == HostEvent.NONE) {
                continue;
            }
            List<HostEvent> here = operators.get(new EventStart(event.thread(), event.start()));
            if (here != null) {
                here.add(event);
            }
            if (!isNode(event)) {
                creators.computeIfAbsent(event.args().sequence(), s -> new ArrayList<>(2))
                        .add(event);
            }
        }
        Map<Long, HostThread> forwardThreads = new HashMap<>();
        for (FlowEvent flow : flows) {
            for (HostEvent node : operators.get(flow.to)) {
                for (HostEvent creator : operators.get(flow.from)) {
                    if (isNode(node) && node.args().sequence() == creator.args().sequence()) {
                        node.forward = creator;
                        forwardThreads.put(node.args().forwardThread(), creator.thread());
                    }
                }
            }
        }
        for (HostEvent event : events) {
            if (event.kind() == HostEventKind.OP && isNode(event) && event.forward == null) {
                event.forward =
                        creator(event, creators, forwardThreads.get(event.args().forwardThread()));
            }
        }
    }

    private static boolean isNode(HostEvent event) {
        return event.args().forwardThread() > 0;
    }

    /**
     * Returns the last operator with the sequence number of a node that started before it, or null.
     *
     * @param thread thread of the operator; null if unknown, and then operators of two threads are ambiguous
     */
    private static HostEvent creator(HostEvent node, Map<Long, List<HostEvent>> creators, HostThread thread) {
        HostEvent last = null;
        for (HostEvent candidate : creators.getOrDefault(node.args().sequence(), List.of())) {
            boolean fits = candidate.start() < node.start()
                    && (thread == null || candidate.thread().equals(thread));
            if (!fits) {
                continue;
            }
            if (last != null && !last.thread().equals(candidate.thread())) {
                return null;
            }
            if (last == null || candidate.start() >= last.start()) {
                last = candidate;
            }
        }
        return last;
    }

    /** Links an engine thread to the thread whose operators created its nodes; that thread waits in backward(). */
    private void linkEngineThreads() {
        Map<HostThread, List<HostEvent>> ranges = new HashMap<>();
        Map<HostEvent, HostThread> callers = new HashMap<>(); // by outermost event of an engine thread
        Map<HostThread, HostThread> firstCallers = new HashMap<>(); // by engine thread
        for (HostEvent event : events) {
            if (event.kind() == HostEventKind.RANGE) {
                ranges.computeIfAbsent(event.thread(), t -> new ArrayList<>()).add(event);
            }
            if (event.forward != null) {
                callers.putIfAbsent(root(event), event.forward.thread());
                firstCallers.putIfAbsent(event.thread(), event.forward.thread());
            }
        }
        HostThread engine = null;
        HostThread caller = null;
        for (HostEvent event : events) {
            if (event.parent != null || !event.isEngine()) {
                continue;
            }
            if (!event.thread().equals(engine)) {
                engine = event.thread();
                caller = firstCallers.get(engine);
            }
            caller = callers.getOrDefault(event, caller); // gradient accumulation has no forward operator
            if (caller != null && !caller.equals(engine)) {
                event.waiting = around(event, ranges.getOrDefault(caller, List.of()));
            }
        }
    }

    /**
     * Links threads without steps, such as those of Gloo or one that communicates gradients, to the step during which
     * each of their events starts.
     */
    private void linkOtherThreads() {
        List<HostEvent> steps = steps(events);
        Set<HostThread> stepping = steps.stream().map(HostEvent::thread).collect(Collectors.toSet());
        for (HostEvent event : events) {
            boolean collective = event.kind() == HostEventKind.COLLECTIVE;
            boolean other = !event.isEngine() && !stepping.contains(event.thread());
            if (event.parent == null && (collective || other)) {
                event.waiting = EventLookup.innermost(steps, event.start());
            }
        }
    }

    /** Links GPU work whose launch is not in the trace to the step during which it starts. */
    static void linkUnlaunched(List<DeviceEvent> work, List<HostEvent> events) {
        List<HostEvent> steps = steps(events);
        for (DeviceEvent event : work) {
            if (event.launch() == null) {
                event.during = EventLookup.innermost(steps, event.start());
            }
        }
    }

    private static List<HostEvent> steps(List<HostEvent> events) {
        return events.stream()
                .filter(HostEvent::isStep)
                .sorted(Comparator.comparingLong(HostEvent::start))
                .toList();
    }

    private static HostEvent root(HostEvent event) {
        HostEvent root = event;
        while (root.parent != null) {
            root = root.parent;
        }
        return root;
    }

    /** Returns the innermost of these ranges that contains the event, or null. */
    private static HostEvent around(HostEvent event, List<HostEvent> ranges) {
        HostEvent range = EventLookup.innermost(ranges, event.start());
        while (range != null && range.end() < event.end()) {
            range = range.parent;
        }
        return range;
    }
}
