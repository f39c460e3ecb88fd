package cs336.profile;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;

/**
 * What a device was doing when: the ground on which {@link Overlap} and {@link Breakdown} stand.
 *
 * <p>Of a card:
 *
 * <ul>
 *   <li>computation: the time in which at least one kernel ran, on any stream, other than those of communication;
 *   <li>communication: the time in which a kernel of NCCL ran ({@link KernelKind#COMMUNICATION}), or a thread of Gloo
 *       carried out a collective. A kernel of NCCL that waits for another rank communicates: it holds its place on the
 *       card, and a trace of one rank does not show for whom it waits;
 *   <li>copies: the time in which the card copied or set memory. Copies between cards that NCCL makes inside its
 *       kernels are communication; those that Gloo makes between card and host count here.
 * </ul>
 *
 * <p>Where no card worked, the same of the process's threads, as device {@code cpu}:
 *
 * <ul>
 *   <li>communication: the time in which a thread of Gloo carried out a collective ({@link HostEventKind#COLLECTIVE}),
 *       not that in which it stood in a queue;
 *   <li>computation: the time in which a thread ran an operator of PyTorch. What only starts a collective
 *       ({@code c10d::…}) and the engine's frame around each node of a backward pass, in which hooks run and may wait,
 *       do not count; the node itself does.
 * </ul>
 *
 * <p>Times are those of the trace, in nanoseconds: as exact as it is.
 *
 * @param device {@code cuda:0}, or {@code cpu}
 * @param start of the trace, or the part of it, that was asked for
 * @param end likewise: when its last event ended, on threads or cards
 * @param computation when it computed
 * @param communication when it communicated
 * @param copies when it copied
 */
public record Activity(
        String device, long start, long end, Intervals computation, Intervals communication, Intervals copies) {
    private static final String CPU = "cpu";

    /**
     * What each card of a trace did, by its number, or what the process's threads did where there is none; empty for a
     * trace without events.
     */
    public static List<Activity> of(Trace trace) {
        long start = Long.MAX_VALUE;
        long end = Long.MIN_VALUE;
        for (HostEvent event : trace.host()) {
            start = Math.min(start, event.start());
            end = Math.max(end, event.end());
        }
        List<DeviceEvent> work = trace.work();
        for (DeviceEvent event : work) {
            start = Math.min(start, event.start());
            end = Math.max(end, event.end());
        }
        if (start > end) return List.of();
        Intervals collectives = host(trace, event -> event.kind() == HostEventKind.COLLECTIVE);
        if (work.isEmpty()) {
            Intervals operators = host(trace, HostEvent::isComputation);
            return List.of(new Activity(CPU, start, end, operators, collectives, Intervals.NONE));
        }
        var activities = new ArrayList<Activity>();
        for (int card : work.stream()
                .mapToInt(event -> event.stream().device())
                .sorted()
                .distinct()
                .toArray()) {
            var kernels = new ArrayList<DeviceEvent>();
            var nccl = new ArrayList<DeviceEvent>();
            var copies = new ArrayList<DeviceEvent>();
            for (DeviceEvent event : work) {
                if (event.stream().device() != card) continue;
                List<DeviceEvent> place = event.kernelKind() == KernelKind.COMMUNICATION
                        ? nccl
                        : event.kind() == DeviceEventKind.KERNEL ? kernels : copies;
                place.add(event);
            }
            activities.add(new Activity(
                    "cuda:" + card,
                    start,
                    end,
                    Intervals.during(kernels),
                    Intervals.during(nccl).or(collectives),
                    Intervals.during(copies)));
        }
        return activities;
    }

    private static Intervals host(Trace trace, Predicate<HostEvent> condition) {
        List<HostEvent> events = trace.host().stream().filter(condition).toList();
        return Intervals.during(events);
    }
}
