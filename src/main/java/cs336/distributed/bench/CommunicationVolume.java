package cs336.distributed.bench;

import cs336.bench.Metric;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Traffic;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;

/**
 * The bytes that training steps communicate, in the group and its subgroups, per step: {@code handed}, bytes of the
 * tensors passed to collectives; {@code least-sent}, the minimum bytes that a rank must send for them; {@code sent},
 * the bytes that each rank sent through TCP sockets and, with NCCL, NVLinks, according to their counters, where all
 * ranks have them. It excludes InfiniBand, PCIe and shared memory, so it may be below {@code least-sent}.
 */
final class CommunicationVolume {
    static final Metric HANDED = Metric.bytes("handed");
    static final Metric LEAST_SENT = Metric.bytes("least-sent");
    private static final Metric SENT = Metric.bytes("sent");

    private final ProcessGroup group;
    private final OptionalLong sentBefore;
    private final Map<ProcessGroup, Traffic> before;
    private OptionalLong sentAfter;
    private Map<ProcessGroup, Traffic> traffic;

    private CommunicationVolume(ProcessGroup group) throws IOException {
        this.group = group;
        group.barrier();
        sentBefore = sentBytes(group);
        group.barrier(); // reading the counters takes some ranks longer than others
        before = traffic();
    }

    /** Returns the traffic so far, by group. */
    private Map<ProcessGroup, Traffic> traffic() {
        Map<ProcessGroup, Traffic> byGroup = new LinkedHashMap<>();
        byGroup.put(group, group.traffic());
        group.subgroups().forEach(subgroup -> byGroup.put(subgroup, subgroup.traffic()));
        return byGroup;
    }

    /** Starts to count; all ranks call it. */
    static CommunicationVolume start(ProcessGroup group) throws IOException {
        return new CommunicationVolume(group);
    }

    /** Ends counting; all ranks call it. */
    void stop() throws IOException {
        traffic = traffic();
        traffic.replaceAll((each, sum) -> sum.since(before.getOrDefault(each, new Traffic(Map.of()))));
        group.barrier();
        sentAfter = sentBytes(group);
    }

    /**
     * Sets the metrics, after {@link #stop}. All ranks call it.
     *
     * @param steps number of steps between start and stop
     */
    void addTo(SampleCollector samples, int steps) {
        long handed = traffic.values().stream()
                .flatMap(each -> each.byOperation().values().stream())
                .mapToLong(Traffic.Volume::bytes)
                .sum();
        samples.set(HANDED, List.of((double) handed / steps));
        double leastSent = traffic.entrySet().stream()
                .mapToDouble(entry -> entry.getValue().leastSent(entry.getKey().size()))
                .sum();
        samples.set(LEAST_SENT, List.of(leastSent / steps));
        double sent = sentBefore.isPresent() && sentAfter.isPresent()
                ? (double) (sentAfter.getAsLong() - sentBefore.getAsLong()) / steps
                : Double.NaN;
        List<Double> byRank = group.allGather(sent);
        if (byRank.stream().noneMatch(value -> value.isNaN())) {
            samples.set(SENT, byRank);
        }
    }

    /**
     * Returns the bytes sent so far through this process's sockets and, with NCCL, through the NVLinks of this rank's
     * GPU, which no other process may use. Empty if the NVLinks have no counters.
     */
    private static OptionalLong sentBytes(ProcessGroup group) throws IOException {
        long sockets = SocketBytes.sent();
        if (group.backend() == CollectiveBackend.GLOO) {
            return OptionalLong.of(sockets);
        }
        OptionalLong nvLinks = NvLinkBytes.sent(group.device());
        return nvLinks.isPresent() ? OptionalLong.of(sockets + nvLinks.getAsLong()) : nvLinks;
    }
}
