package cs336.profile;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * A builder that collects the events of a trace in any order, then sorts them and resolves the relations between them.
 */
final class TraceBuilder {
    long baseTime;
    final List<HostEvent> host = new ArrayList<>();
    final List<MemoryEvent> memory = new ArrayList<>();
    final Map<HostThread, String> threadNames = new HashMap<>();
    final List<Links.FlowEvent> flows = new ArrayList<>();
    private final List<DeviceEventDraft> device = new ArrayList<>();

    /** A device event whose launch is not known yet. */
    private record DeviceEventDraft(
            DeviceEventKind kind,
            String name,
            DeviceStream stream,
            long start,
            long duration,
            DeviceEvent.DeviceArgs args) {}

    void device(
            DeviceEventKind kind,
            String name,
            DeviceStream stream,
            long start,
            long duration,
            DeviceEvent.DeviceArgs args) {
        device.add(new DeviceEventDraft(kind, name, stream, start, duration, args));
    }

    /** Resolves nesting, forward operators and launches, and returns the finished trace. */
    Trace build() {
        host.sort(Nesting.ORDER);
        Nesting.resolve(host);
        Links.resolve(host, flows);
        Map<Long, HostEvent> calls = new HashMap<>();
        Map<Long, HostEvent> operators = new HashMap<>();
        for (HostEvent event : host) {
            HostEvent.HostArgs args = event.args();
            if (event.kind() == HostEventKind.CALL && args.correlation() != HostEvent.NONE) {
                calls.putIfAbsent(args.correlation(), event);
            } else if (event.kind() == HostEventKind.OP && args.external() != HostEvent.NONE) {
                operators.putIfAbsent(args.external(), event);
            }
        }
        Map<String, KernelKind> named = new HashMap<>();
        List<DeviceEvent> launched = new ArrayList<>(device.size());
        for (DeviceEventDraft event : device) {
            HostEvent launch = null;
            if (event.kind.isWork()) {
                launch = calls.get(event.args.correlation());
                if (launch == null) {
                    launch = operators.get(event.args.external());
                }
            }
            KernelKind kind = named.computeIfAbsent(event.name, KernelKind::named);
            launched.add(new DeviceEvent(
                    event.kind,
                    event.name,
                    event.stream,
                    event.start,
                    event.duration,
                    event.args,
                    launch,
                    KernelKind.of(event.kind, event.name, kind, launch)));
        }
        Links.linkUnlaunched(launched, host);
        launched.sort(Comparator.comparing(DeviceEvent::stream).thenComparingLong(DeviceEvent::start));
        memory.sort(Comparator.comparingLong(MemoryEvent::time));
        return new Trace(baseTime, host, launched, memory, threadNames);
    }
}
