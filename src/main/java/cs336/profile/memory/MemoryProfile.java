package cs336.profile.memory;

import cs336.torch.AllocatorHistory;
import cs336.torch.AllocatorReports;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.MemoryStats;
import cs336.torch.ProfilerRange;
import cs336.torch.RangeListener;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/**
 * Records every block of memory that a stretch of a program allocates and frees, and where:
 *
 * <pre>{@code
 * try (var memory = MemoryProfile.start(device)) {
 *     var model = new TransformerLM(config, device);
 *     memory.mark(MemoryCategory.PARAMETERS, model.namedParameters());
 *     try (var phase = ProfilerRange.of("forward")) { … }
 *     try (var phase = ProfilerRange.of("backward")) { … }
 *     MemoryRecord record = memory.stop();
 *     System.out.println(record.breakdown(record.peakEvent()));
 * }
 * }</pre>
 *
 * <p>What is recorded is what the thread that starts it does, with the backward passes that it runs.
 * {@link ProfilerRange}s tell blocks apart: the outermost is a phase, those inside are a place; the layers of a model
 * open theirs by themselves. On CUDA the bytes are those that PyTorch's allocator counts, so that the peak of the
 * record is the peak of its statistics; what others have allocated before is part of it; what another thread frees
 * meanwhile, such as the garbage collector's, stays in the record. On the CPU they are those of tensors, exactly, and
 * what was there before is part of it where it is marked.
 *
 * <p>To record costs about two microseconds for each allocation and as much for each release, on the thread that asks
 * for it.
 *
 * <p>On CUDA the allocator's own history is recorded beside it, for {@link MemoryRecord#saveSnapshot}.
 */
public final class MemoryProfile implements AutoCloseable {
    private final Device device;
    private final Thread thread = Thread.currentThread();
    private final long bytesBefore;
    private AllocatorHistory history; // null on the CPU
    private final Places places = new Places();

    private final List<Event> events = new ArrayList<>();
    private final List<MemoryPhase> phases = new ArrayList<>();
    private final Map<Long, Mark> foundMarked = new LinkedHashMap<>(); // by address: there before the record
    private final Map<Event, Mark> marked = new HashMap<>();
    private final Map<Long, Event> alive = new HashMap<>(); // by address
    private boolean recording = true;

    /** A report: bytes are negative if the block was freed. */
    private record Event(int index, long address, long bytes, long nanos, String phase, String place) {}

    private record Mark(MemoryCategory category, String name, long bytes) {}

    private MemoryProfile(Device device) {
        this.device = device;
        bytesBefore = device.isCuda() ? MemoryStats.current(device) : 0;
    }

    /**
     * Begins to record.
     *
     * @throws IllegalStateException if memory is being recorded already, or PyTorch's profiler runs on this thread
     */
    public static MemoryProfile start(Device device) {
        var profile = new MemoryProfile(device);
        AllocatorReports.listen(profile::reported);
        if (device.isCuda()) {
            profile.history = AllocatorHistory.start();
        }
        ProfilerRange.addListener(profile.places);
        return profile;
    }

    /**
     * Says what tensors hold: {@link MemoryCategory#PARAMETERS} after a model was built,
     * {@link MemoryCategory#GRADIENTS} after a backward pass and before they are dropped,
     * {@link MemoryCategory#OPTIMIZER_STATE} after the first step. Counts for their blocks from allocation to release.
     *
     * @param tensors by name; undefined ones are passed over
     * @throws IllegalStateException if the record is stopped
     */
    public synchronized void mark(MemoryCategory category, Map<String, Tensor> tensors) {
        requireRecording();
        try (var scope = MemoryScope.open()) {
            tensors.forEach((name, tensor) -> {
                if (tensor.defined() && tensor.is_cuda() == device.isCuda()) {
                    long address = tensor.storage().data().address();
                    var mark = new Mark(category, name, tensor.storage().nbytes());
                    Event allocation = alive.get(address);
                    if (allocation != null) {
                        marked.put(allocation, mark);
                    } else if (address != 0) {
                        foundMarked.put(address, mark);
                    }
                }
            });
        }
    }

    /** Marks the gradients that parameters have now. */
    public void markGradients(Map<String, Tensor> parameters) {
        try (var scope = MemoryScope.open()) {
            var gradients = new LinkedHashMap<String, Tensor>();
            parameters.forEach((name, parameter) -> gradients.put(name, parameter.grad()));
            mark(MemoryCategory.GRADIENTS, gradients);
        }
    }

    /**
     * Ends the record. On CUDA it waits for the device first.
     *
     * @throws IllegalStateException if it is stopped already, on another thread than it was started on, or with a range
     *     open that began during the record
     */
    public MemoryRecord stop() {
        requireRecording();
        if (Thread.currentThread() != thread) {
            throw new IllegalStateException("a memory record must be stopped on the thread that started it, "
                    + thread.getName() + ", not on " + Thread.currentThread().getName());
        }
        if (!places.open.isEmpty()) {
            throw new IllegalStateException(
                    "the range " + places.path() + " is still open; close it before the record");
        }
        device.synchronize();
        byte[] snapshot = history == null ? null : history.pickled();
        end();
        return new MemoryRecord(device, allocations(), phases, List.copyOf(nanos()), snapshot);
    }

    /** Ends the record, if {@link #stop} has not. */
    @Override
    public void close() {
        if (recording) {
            end();
        }
    }

    private void end() {
        recording = false;
        ProfilerRange.removeListener(places);
        AllocatorReports.unlisten();
        if (history != null) {
            history.close();
        }
    }

    private void requireRecording() {
        if (!recording) {
            throw new IllegalStateException("this memory record is stopped already");
        }
    }

    private synchronized void reported(long address, long bytes, boolean cuda, int index) {
        if (cuda != device.isCuda() || index != device.index()) {
            return;
        }
        boolean here = Thread.currentThread() == thread;
        var event =
                new Event(events.size(), address, bytes, System.nanoTime(), places.phase(), here ? places.place() : "");
        events.add(event);
        if (bytes > 0) {
            alive.put(address, event);
        } else {
            alive.remove(address);
        }
    }

    private List<Long> nanos() {
        return events.stream().map(Event::nanos).toList();
    }

    /** Pairs allocations with releases, in the order of allocation. */
    private List<Allocation> allocations() {
        var found = new ArrayList<Allocation>();
        var open = new HashMap<Long, Event>();
        var ends = new HashMap<Event, Integer>();
        long unknown = bytesBefore;
        for (Event event : events) {
            if (event.bytes > 0) {
                open.put(event.address, event);
                continue;
            }
            Event allocation = open.remove(event.address);
            if (allocation != null) {
                ends.put(allocation, event.index);
            } else {
                found.add(found(event.address, -event.bytes, event.index));
                unknown += event.bytes;
            }
        }
        for (long address : List.copyOf(foundMarked.keySet())) {
            long bytes = foundMarked.get(address).bytes;
            found.add(found(address, bytes, events.size()));
            unknown -= bytes;
        }
        if (device.isCuda() && unknown > 0) {
            found.add(found(0, unknown, events.size()));
        }
        for (Event event : events) {
            if (event.bytes > 0) {
                found.add(allocation(event, ends.getOrDefault(event, events.size())));
            }
        }
        return BackwardPlaces.of(found, phases);
    }

    /** A block that the record found. */
    private Allocation found(long address, long bytes, int until) {
        Mark mark = foundMarked.remove(address);
        MemoryCategory category = mark == null ? MemoryCategory.OTHER : mark.category;
        return new Allocation(
                address,
                bytes,
                Allocation.BEFORE,
                until,
                "",
                "before the record",
                category,
                mark == null ? "" : mark.name);
    }

    private Allocation allocation(Event event, int until) {
        Mark mark = marked.get(event);
        MemoryCategory category = mark == null ? category(event, until) : mark.category;
        return new Allocation(
                event.address,
                event.bytes,
                event.index,
                until,
                event.phase,
                event.place,
                category,
                mark == null ? "" : mark.name);
    }

    private MemoryCategory category(Event event, int until) {
        MemoryPhase phase = null;
        for (MemoryPhase p : phases) {
            if (p.from() <= event.index && event.index < p.until()) {
                phase = p;
            }
        }
        if (phase == null) {
            return MemoryCategory.OTHER;
        }
        boolean freed = until < events.size();
        return freed && until >= phase.until() ? MemoryCategory.ACTIVATIONS : MemoryCategory.WORKSPACE;
    }

    /** Follows the ranges of the recording thread. */
    private final class Places implements RangeListener {
        private final Deque<String> open = new ArrayDeque<>();
        private volatile String phase = "";
        private String place = "";
        private int phaseBegan;

        @Override
        public void entered(String name) {
            if (Thread.currentThread() == thread) {
                if (open.isEmpty()) {
                    phase = name;
                    phaseBegan = count();
                }
                open.addLast(name);
                update();
            }
        }

        @Override
        public void left(String name) {
            if (Thread.currentThread() == thread && !open.isEmpty()) {
                open.removeLast();
                if (open.isEmpty()) {
                    phases.add(new MemoryPhase(phase, phaseBegan, count()));
                    phase = "";
                }
                update();
            }
        }

        private void update() {
            place = String.join("/", open.stream().skip(1).toList());
            if (history != null) {
                history.tag(path());
            }
        }

        String path() {
            return String.join("/", open);
        }

        String phase() {
            return phase;
        }

        String place() {
            return place;
        }
    }

    private int count() {
        synchronized (this) {
            return events.size();
        }
    }
}
