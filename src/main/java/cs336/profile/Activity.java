package cs336.profile;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;

/**
 * The times at which a device computed, communicated and copied: the input of {@link Overlap} and {@link Breakdown}.
 *
 * <p>On a GPU:
 *
 * <ul>
 *   <li>computation: at least one kernel other than a communication kernel ran, on any stream;
 *   <li>communication: an NCCL kernel ran ({@link KernelKind#COMMUNICATION}), or a Gloo thread executed a collective.
 *       An NCCL kernel that waits for another rank counts as communication, because it occupies the GPU and the trace
 *       of one rank does not show the wait;
 *   <li>copies: the GPU copied or set memory. Copies between GPUs inside NCCL kernels are communication; Gloo's copies
 *       between GPU and host are copies.
 * </ul>
 *
 * <p>In a trace without GPU work, the same for the threads of the process, as device {@code cpu}:
 *
 * <ul>
 *   <li>communication: a Gloo thread executed a collective ({@link HostEventKind#COLLECTIVE}). Time in the queue does
 *       not count;
 *   <li>computation: a thread executed a PyTorch operator. Operators that only start a collective ({@code c10d::…}) do
 *       not count, nor does the autograd engine's frame around a backward node, in which hooks run and may wait; the
 *       node itself counts.
 * </ul>
 *
 * <p>Times are those of the trace in nanoseconds, without rounding.
 *
 * @param device {@code cuda:0} etc., or {@code cpu}
 * @param start start of the first event, on any thread or GPU
 * @param end end of the last event, on any thread or GPU
 * @param computation time in which the device computed
 * @param communication time in which the device communicated
 * @param copies time in which the device copied or set memory
 */
public record Activity(
        String device, long start, long end, Intervals computation, Intervals communication, Intervals copies) {
    private static final String CPU = "cpu";

    /**
     * Returns the activity of each GPU of a trace, ordered by index, or of the process's threads if the trace has no
     * GPU work; an empty list for a trace without events.
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
        if (start > end) {
            return List.of();
        }
        Intervals collectives = host(trace, event -> event.kind() == HostEventKind.COLLECTIVE);
        if (work.isEmpty()) {
            Intervals operators = host(trace, HostEvent::isComputation);
            return List.of(new Activity(CPU, start, end, operators, collectives, Intervals.NONE));
        }
        var activities = new ArrayList<Activity>();
        for (int device : work.stream()
                .mapToInt(event -> event.stream().device())
                .sorted()
                .distinct()
                .toArray()) {
            var kernels = new ArrayList<DeviceEvent>();
            var nccl = new ArrayList<DeviceEvent>();
            var copies = new ArrayList<DeviceEvent>();
            for (DeviceEvent event : work) {
                if (event.stream().device() != device) {
                    continue;
                }
                List<DeviceEvent> list = event.kernelKind() == KernelKind.COMMUNICATION
                        ? nccl
                        : event.kind() == DeviceEventKind.KERNEL ? kernels : copies;
                list.add(event);
            }
            activities.add(new Activity(
                    "cuda:" + device,
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
