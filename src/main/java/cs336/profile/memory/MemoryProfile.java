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
import java.util.Objects;
import org.bytedeco.pytorch.Tensor;

/**
 * A recorder of every allocation and release of a program, and of its place in the program:
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
 * <p>The recording covers the thread that starts it and the backward passes that this thread runs.
 * {@link ProfilerRange}s label the blocks: the outermost range is the phase, the ranges inside it are the place. The
 * layers of a model open their ranges themselves.
 *
 * <p>On CUDA the sizes are those that PyTorch's allocator counts, so the peak of the recording is the one that
 * {@code torch.cuda.max_memory_allocated} reports. It includes memory allocated before the recording. Memory that
 * another thread frees during the recording, for example the garbage collector's thread, stays in the recording. On the
 * CPU the sizes are exact tensor sizes, and earlier memory is included only where it is marked. PyTorch does not report
 * its release there.
 *
 * <p>Each allocation and each release costs about 2 µs of profiling overhead on the thread that makes it.
 *
 * <p>On CUDA, PyTorch's own allocator history is recorded as well, for {@link MemoryRecord#saveSnapshot}.
 */
public final class MemoryProfile implements AutoCloseable {
    private final Device device;
    private final Thread thread = Thread.currentThread();
    private final long bytesBefore;
    private AllocatorHistory history; // null on the CPU
    private final RangeTracker ranges = new RangeTracker();

    private final List<AllocatorEvent> events = new ArrayList<>();
    private final List<MemoryPhase> phases = new ArrayList<>();
    private final Map<Long, MarkedTensor> markedBefore = new LinkedHashMap<>(); // by address: existed at the start
    private final Map<AllocatorEvent, MarkedTensor> marked = new HashMap<>();
    private final Map<Long, AllocatorEvent> alive = new HashMap<>(); // by address
    private boolean recording = true;

    /** An allocation, or a release if {@code bytes} is negative. */
    private record AllocatorEvent(int index, long address, long bytes, long nanos, String phase, String place) {}

    private record MarkedTensor(MemoryCategory category, String name, long bytes) {}

    private MemoryProfile(Device device) {
        this.device = device;
        bytesBefore = device.isCuda() ? MemoryStats.current(device) : 0;
    }

    /**
     * Starts recording.
     *
     * @throws IllegalStateException if another memory recording is running, or PyTorch's profiler runs on this thread
     */
    public static MemoryProfile start(Device device) {
        var profile = new MemoryProfile(device);
        AllocatorReports.listen(profile::reported);
        if (device.isCuda()) {
            profile.history = AllocatorHistory.start();
        }
        ProfilerRange.addListener(profile.ranges);
        return profile;
    }

    /**
     * Declares the category of tensors. It applies to their blocks from allocation to release. Call it with
     * {@link MemoryCategory#PARAMETERS} after the model was built, with {@link MemoryCategory#GRADIENTS} after a
     * backward pass and before the gradients are freed, and with {@link MemoryCategory#OPTIMIZER_STATE} after the first
     * step.
     *
     * @param tensors tensors by name; undefined tensors and tensors on other devices are skipped
     * @throws IllegalStateException if the recording is stopped
     */
    public synchronized void mark(MemoryCategory category, Map<String, Tensor> tensors) {
        Objects.requireNonNull(category, "category must not be null");
        requireRecording();
        try (var scope = MemoryScope.open()) {
            tensors.forEach((name, tensor) -> {
                if (tensor.defined() && Device.of(tensor).equals(device)) {
                    long address = tensor.storage().data().address();
                    var mark = new MarkedTensor(category, name, tensor.storage().nbytes());
                    AllocatorEvent allocation = alive.get(address);
                    if (allocation != null) {
                        marked.put(allocation, mark);
                    } else if (address != 0) {
                        markedBefore.put(address, mark);
                    }
                }
            });
        }
    }

    /** Marks the current gradients of these parameters. */
    public void markGradients(Map<String, Tensor> parameters) {
        try (var scope = MemoryScope.open()) {
            var gradients = new LinkedHashMap<String, Tensor>();
            parameters.forEach((name, parameter) -> gradients.put(name, parameter.grad()));
            mark(MemoryCategory.GRADIENTS, gradients);
        }
    }

    /**
     * Synchronizes with the device and stops recording.
     *
     * @return the recording
     * @throws IllegalStateException if the recording is already stopped, this is not the thread that started it, or a
     *     range that was opened during the recording is still open
     */
    public MemoryRecord stop() {
        requireRecording();
        AllocatorReports.requireListening();
        if (!ranges.open.isEmpty()) {
            throw new IllegalStateException("the range " + ranges.path() + " is still open; close it before stop()");
        }
        device.synchronize();
        byte[] snapshot = history == null ? null : history.pickled();
        end();
        return new MemoryRecord(device.toString(), allocations(), phases, List.copyOf(nanos()), snapshot);
    }

    /**
     * Stops recording unless {@link #stop} already did.
     *
     * @throws IllegalStateException if this is not the thread that started the recording
     */
    @Override
    public void close() {
        if (recording) {
            end();
        }
    }

    private void end() {
        AllocatorReports.unlisten(); // first, because only the thread that started the recording can
        recording = false;
        ProfilerRange.removeListener(ranges);
        if (history != null) {
            history.close();
        }
    }

    private void requireRecording() {
        if (!recording) {
            throw new IllegalStateException("this memory recording is already stopped");
        }
    }

    private synchronized void reported(long address, long bytes, boolean cuda, int index) {
        if (cuda != device.isCuda() || index != device.index()) {
            return;
        }
        boolean onThread = Thread.currentThread() == thread;
        var event = new AllocatorEvent(
                events.size(), address, bytes, System.nanoTime(), ranges.phase(), onThread ? ranges.place() : "");
        events.add(event);
        if (bytes > 0) {
            alive.put(address, event);
        } else {
            alive.remove(address);
        }
    }

    private List<Long> nanos() {
        return events.stream().map(AllocatorEvent::nanos).toList();
    }

    /** Returns the blocks in order of allocation, each paired with its release. */
    private List<Allocation> allocations() {
        var blocks = new ArrayList<Allocation>();
        var open = new HashMap<Long, AllocatorEvent>();
        var ends = new HashMap<AllocatorEvent, Integer>();
        long unknown = bytesBefore; // in use at the start, at addresses that are still unknown
        for (AllocatorEvent event : events) {
            if (event.bytes > 0) {
                open.put(event.address, event);
                continue;
            }
            AllocatorEvent allocation = open.remove(event.address);
            if (allocation != null) {
                ends.put(allocation, event.index);
            } else {
                blocks.add(before(event.address, -event.bytes, event.index));
                unknown += event.bytes;
            }
        }
        for (long address : List.copyOf(markedBefore.keySet())) {
            long bytes = markedBefore.get(address).bytes;
            blocks.add(before(address, bytes, events.size()));
            unknown -= bytes;
        }
        if (device.isCuda() && unknown > 0) {
            blocks.add(before(0, unknown, events.size()));
        }
        for (AllocatorEvent event : events) {
            if (event.bytes > 0) {
                blocks.add(allocation(event, ends.getOrDefault(event, events.size())));
            }
        }
        return BackwardPlaces.of(blocks, phases);
    }

    private Allocation before(long address, long bytes, int until) {
        MarkedTensor mark = markedBefore.remove(address);
        return Allocation.before(
                address,
                bytes,
                until,
                mark == null ? MemoryCategory.OTHER : mark.category,
                mark == null ? "" : mark.name);
    }

    private Allocation allocation(AllocatorEvent event, int until) {
        MarkedTensor mark = marked.get(event);
        return new Allocation(
                event.address,
                event.bytes,
                event.index,
                until,
                event.phase,
                event.place,
                mark == null ? category(event, until) : mark.category,
                mark == null ? "" : mark.name);
    }

    private MemoryCategory category(AllocatorEvent event, int until) {
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

    /** A listener that tracks the open ranges of the recording thread. */
    private final class RangeTracker implements RangeListener {
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
