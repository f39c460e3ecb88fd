package cs336.profile;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * Ties nodes of a backward pass to the operators of the forward pass that made them, PyTorch's engine threads to the
 * threads that wait for them, and what other threads do to the steps in which they do it.
 *
 * <p>An operator that may make a node carries the sequence number that the node would get, and so do operators before
 * it that made none: the last to begin is the one. Numbers count by thread. A node of the backward pass names its
 * number and the forward thread; the latter in PyTorch's own counting, which no other event mentions, so the trace's
 * flows from forward to backward say which thread it is. Where a trace has no flows, a number that several threads used
 * ties nothing.
 */
final class Links {
    /** The two ends of an flow from an operator to its node: thread and start of each. */
    record FlowEvent(EventStart from, EventStart to) {}

    record EventStart(HostThread thread, long start) {}

    private final List<HostEvent> events;

    private Links(List<HostEvent> events) {
        this.events = events;
    }

    /** Fills in the forward operators, and whom engine threads make wait, of events whose nesting is known. */
    static void resolve(List<HostEvent> events, List<FlowEvent> flows) {
        Links links = new Links(events);
        links.tieNodes(flows);
        links.tieEngineThreads();
        links.tieOtherThreads();
    }

    private void tieNodes(List<FlowEvent> flows) {
        Map<EventStart, List<HostEvent>> operators = new HashMap<>(); // where an flow begins or ends
        for (FlowEvent flow : flows) {
            operators.put(flow.from, new ArrayList<>(1));
            operators.put(flow.to, new ArrayList<>(1));
        }
        Map<Long, List<HostEvent>> makers = new HashMap<>(); // by sequence number
        for (HostEvent event : events) {
            if (event.kind() != HostEventKind.OP || event.args().sequence() == HostEvent.NONE) continue;
            List<HostEvent> here = operators.get(new EventStart(event.thread(), event.start()));
            if (here != null) here.add(event);
            if (!isNode(event)) {
                makers.computeIfAbsent(event.args().sequence(), s -> new ArrayList<>(2))
                        .add(event);
            }
        }
        Map<Long, HostThread> forwardThreads = new HashMap<>();
        for (FlowEvent flow : flows) {
            for (HostEvent node : operators.get(flow.to)) {
                for (HostEvent maker : operators.get(flow.from)) {
                    if (isNode(node) && node.args().sequence() == maker.args().sequence()) {
                        node.forward = maker;
                        forwardThreads.put(node.args().forwardThread(), maker.thread());
                    }
                }
            }
        }
        for (HostEvent event : events) {
            if (event.kind() == HostEventKind.OP && isNode(event) && event.forward == null) {
                event.forward =
                        maker(event, makers, forwardThreads.get(event.args().forwardThread()));
            }
        }
    }

    private static boolean isNode(HostEvent event) {
        return event.args().forwardThread() > 0;
    }

    /**
     * The last operator with the node's number that began before it, on the given thread or, without one, on the only
     * one.
     */
    private static HostEvent maker(HostEvent node, Map<Long, List<HostEvent>> makers, HostThread thread) {
        HostEvent last = null;
        for (HostEvent candidate : makers.getOrDefault(node.args().sequence(), List.of())) {
            boolean fits = candidate.start() < node.start()
                    && (thread == null || candidate.thread().equals(thread));
            if (!fits) continue;
            if (last != null && !last.thread().equals(candidate.thread())) return null;
            if (last == null || candidate.start() >= last.start()) last = candidate;
        }
        return last;
    }

    /** An engine thread works for the thread whose operators made the nodes that it runs; that one waits meanwhile. */
    private void tieEngineThreads() {
        Map<HostThread, List<HostEvent>> ranges = new HashMap<>();
        Map<HostEvent, HostThread> askers = new HashMap<>(); // by outermost event of an engine thread
        Map<HostThread, HostThread> firstAskers = new HashMap<>(); // by engine thread
        for (HostEvent event : events) {
            if (event.kind() == HostEventKind.RANGE) {
                ranges.computeIfAbsent(event.thread(), t -> new ArrayList<>()).add(event);
            }
            if (event.forward != null) {
                askers.putIfAbsent(root(event), event.forward.thread());
                firstAskers.putIfAbsent(event.thread(), event.forward.thread());
            }
        }
        HostThread engine = null;
        HostThread asker = null;
        for (HostEvent event : events) {
            if (event.parent != null || !event.isEngine()) continue;
            if (!event.thread().equals(engine)) {
                engine = event.thread();
                asker = firstAskers.get(engine);
            }
            asker = askers.getOrDefault(event, asker); // nodes that only add to gradients have no forward operator
            if (asker != null && !asker.equals(engine)) {
                event.waiting = around(event, ranges.getOrDefault(asker, List.of()));
            }
        }
    }

    /**
     * A thread without steps of its own, as one of Gloo's or one that sends gradients, works for the step in which it
     * begins something.
     */
    private void tieOtherThreads() {
        List<HostEvent> steps = events.stream()
                .filter(HostEvent::isStep)
                .sorted(Comparator.comparingLong(HostEvent::start))
                .toList();
        Set<HostThread> stepping = steps.stream().map(HostEvent::thread).collect(Collectors.toSet());
        for (HostEvent event : events) {
            boolean collective = event.kind() == HostEventKind.COLLECTIVE;
            boolean other = !event.isEngine() && !stepping.contains(event.thread());
            if (event.parent == null && (collective || other)) {
                event.waiting = EventLookup.innermost(steps, event.start());
            }
        }
    }

    private static HostEvent root(HostEvent event) {
        HostEvent root = event;
        while (root.parent != null) root = root.parent;
        return root;
    }

    /** The innermost of these ranges that lasts at least as long as the event at both ends, or null. */
    private static HostEvent around(HostEvent event, List<HostEvent> ranges) {
        HostEvent range = EventLookup.innermost(ranges, event.start());
        while (range != null && range.end() < event.end()) {
            range = range.parent;
        }
        return range;
    }
}
