package cs336.profile.memory;

import cs336.bench.WholeFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import net.razorvine.pickle.PickleException;
import net.razorvine.pickle.Pickler;
import net.razorvine.pickle.Unpickler;

/**
 * Reader and writer of PyTorch's memory snapshots. A snapshot is a pickled dictionary. Its {@code device_traces} is a
 * list of entries per GPU; the entries include {@code alloc}, {@code free_requested} and {@code free_completed}.
 */
public final class MemorySnapshot {
    private static final String TRACES = "device_traces";
    private static final String CATEGORY_AND_NAME = ": ";
    private static final String SETTINGS = "allocator_settings"; // empty for a recording on the CPU
    private static final String CUDA = "cuda:";
    private static final String ALLOCATED = "active_allocated";

    private MemorySnapshot() {}

    /**
     * Returns a recording as a snapshot.
     *
     * @param history history pickled by PyTorch's allocator, whose entries get phase and place as their stack; null to
     *     create the entries from the recording
     */
    static byte[] pickle(MemoryRecord record, byte[] history) throws IOException {
        Map<String, Object> snapshot = history == null ? fromRecord(record) : withPlaces(record, load(history));
        try {
            return new Pickler(false).dumps(snapshot);
        } catch (PickleException e) {
            throw new IOException("the memory snapshot could not be written: " + e.getMessage(), e);
        }
    }

    /**
     * Reads a snapshot written by {@link MemoryRecord#saveSnapshot} or by a Python program.
     *
     * @return the recording of the first device that has entries. Sizes are the requested ones, before the allocator
     *     rounds them up. Phases, places and categories are available for snapshots of {@link MemoryRecord}; in others
     *     every block is {@link MemoryCategory#OTHER} and its place is the innermost stack frame.
     * @throws IOException if the file cannot be read or is not a snapshot; the message names the file and the error
     */
    public static MemoryRecord read(Path file) throws IOException {
        WholeFile.requireFile(file);
        byte[] bytes = Files.readAllBytes(file);
        try {
            return record(load(bytes));
        } catch (IOException e) {
            throw new IOException(file + " is not a memory snapshot: " + e.getMessage(), e);
        } catch (StackOverflowError e) { // of the hash code of a damaged collection
            throw new IOException(file + " is not a memory snapshot: a collection contains itself", e);
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> load(byte[] bytes) throws IOException {
        Object loaded;
        try {
            loaded = new BoundedUnpickler().loads(bytes);
        } catch (RuntimeException | IOException e) {
            throw new IOException("it is not a pickle (" + e.getMessage() + ")", e);
        }
        if (loaded instanceof Map<?, ?> map && map.get(TRACES) instanceof List<?>) {
            return (Map<String, Object>) map;
        }
        throw new IOException("it has no " + TRACES);
    }

    /** An unpickler that checks a length against the end of the input before it allocates memory. */
    private static final class BoundedUnpickler extends Unpickler {
        @Override
        protected Object dispatch(short opcode) throws IOException {
            int width = switch (opcode) {
                case 'T', 'X', 'B', 0x8b -> 4; // BINSTRING, BINUNICODE, BINBYTES, LONG4
                case 0x8d, 0x8e, 0x96 -> 8; // BINUNICODE8, BINBYTES8, BYTEARRAY8
                default -> 0;
            };
            if (width > 0) {
                input.mark(width);
                byte[] littleEndian = input.readNBytes(width);
                input.reset();
                long length = 0;
                for (int i = littleEndian.length; i > 0; i--) {
                    length = length << Byte.SIZE | Byte.toUnsignedLong(littleEndian[i - 1]);
                }
                if (length < 0 || length > input.available()) {
                    throw new PickleException(
                            "a length of " + Long.toUnsignedString(length) + " bytes exceeds the file");
                }
            }
            return super.dispatch(opcode);
        }
    }

    private static Map<String, Object> fromRecord(MemoryRecord record) {
        var entries = new ArrayList<Object>();
        Allocation[] begins = new Allocation[record.events()];
        Allocation[] ends = new Allocation[record.events()];
        for (Allocation a : record.allocations()) {
            if (a.from() != Allocation.BEFORE) {
                begins[a.from()] = a;
            }
            if (a.until() < record.events()) {
                ends[a.until()] = a;
            }
        }
        for (int event = 0; event < record.events(); event++) {
            long micros = record.nanos(event) / 1000;
            if (begins[event] != null) {
                Map<String, Object> entry = entry("alloc", begins[event], micros);
                addPlace(entry, begins[event]);
                entries.add(entry);
            } else if (ends[event] != null) {
                entries.add(entry("free_requested", ends[event], micros));
                entries.add(entry("free_completed", ends[event], micros));
            }
        }
        var traces = new ArrayList<Object>();
        for (int device = 0; device < index(record); device++) {
            traces.add(new ArrayList<>());
        }
        traces.add(entries);
        var snapshot = new LinkedHashMap<String, Object>();
        snapshot.put("segments", earlierBlocks(record));
        snapshot.put(TRACES, traces);
        snapshot.put(SETTINGS, record.device().startsWith(CUDA) ? Map.of("PYTORCH_CUDA_ALLOC_CONF", "") : Map.of());
        snapshot.put("external_annotations", new ArrayList<>());
        return snapshot;
    }

    /** Returns the index of the recorded GPU; 0 for the CPU. */
    private static int index(MemoryRecord record) {
        return record.device().startsWith(CUDA)
                ? Integer.parseInt(record.device().substring(CUDA.length()))
                : 0;
    }

    /** Returns the blocks that exist before and after the recording, each as a segment of its own. */
    private static List<Object> earlierBlocks(MemoryRecord record) {
        var segments = new ArrayList<Object>();
        for (Allocation a : record.allocations()) {
            if (a.from() != Allocation.BEFORE || a.until() < record.events()) {
                continue;
            }
            var block = new LinkedHashMap<String, Object>();
            block.put("address", a.address());
            block.put("size", a.bytes());
            block.put("requested_size", a.bytes());
            block.put("state", ALLOCATED);
            addPlace(block, a);
            var segment = new LinkedHashMap<String, Object>();
            segment.put("device", index(record));
            segment.put("address", a.address());
            for (String size : List.of("total_size", "allocated_size", "active_size", "requested_size")) {
                segment.put(size, a.bytes());
            }
            segment.put("stream", 0);
            segment.put("segment_type", "large");
            segment.put("frames", new ArrayList<>());
            segment.put("blocks", new ArrayList<>(List.of(block)));
            segments.add(segment);
        }
        return segments;
    }

    private static Map<String, Object> entry(String action, Allocation a, long micros) {
        var entry = new LinkedHashMap<String, Object>();
        entry.put("action", action);
        entry.put("addr", a.address());
        entry.put("size", a.bytes());
        entry.put("stream", 0);
        entry.put("time_us", micros);
        entry.put("frames", new ArrayList<>());
        return entry;
    }

    /** Adds phase and place to an entry as its stack, innermost range first. */
    private static void addPlace(Map<String, Object> entry, Allocation a) {
        var path = new ArrayList<String>();
        if (!a.phase().isEmpty()) {
            path.add(a.phase());
        }
        if (!a.place().isEmpty()) {
            path.addAll(Arrays.asList(a.place().split("/")));
        }
        var frames = new ArrayList<Object>();
        for (int depth = path.size(); depth > 0; depth--) {
            frames.add(Map.of(
                    "name", path.get(depth - 1), "filename", String.join("/", path.subList(0, depth)), "line", 0));
        }
        entry.put("frames", frames);
        entry.put("user_metadata", a.category() + (a.name().isEmpty() ? "" : CATEGORY_AND_NAME + a.name()));
    }

    /**
     * Returns the allocator's history with phases and places. The n-th allocation at an address in the history is the
     * n-th one in the recording.
     */
    private static Map<String, Object> withPlaces(MemoryRecord record, Map<String, Object> snapshot)
            throws IOException {
        var byAddress = new HashMap<Long, Deque<Allocation>>();
        for (Allocation a : record.allocations()) {
            if (a.from() != Allocation.BEFORE) {
                byAddress
                        .computeIfAbsent(a.address(), address -> new ArrayDeque<>())
                        .add(a);
            }
        }
        var last = new HashMap<Long, Allocation>();
        List<?> traces = (List<?>) snapshot.get(TRACES);
        if (index(record) < traces.size()) {
            for (Map<String, Object> entry : maps(traces.get(index(record)))) {
                long address = number(entry, "addr");
                Deque<Allocation> allocations = byAddress.get(address);
                if ("alloc".equals(entry.get("action")) && allocations != null && !allocations.isEmpty()) {
                    last.put(address, allocations.peek());
                    addPlace(entry, allocations.remove());
                }
            }
        }
        for (Map<String, Object> segment : maps(snapshot.get("segments"))) {
            for (Map<String, Object> block : maps(segment.get("blocks"))) {
                Allocation allocation = last.get(number(block, "address"));
                if (ALLOCATED.equals(block.get("state")) && allocation != null) {
                    addPlace(block, allocation);
                }
            }
        }
        return snapshot;
    }

    private static MemoryRecord record(Map<String, Object> snapshot) throws IOException {
        List<?> traces = (List<?>) snapshot.get(TRACES);
        for (int device = 0; device < traces.size(); device++) {
            List<Map<String, Object>> entries = maps(traces.get(device));
            if (!entries.isEmpty()) {
                boolean isCpu = snapshot.get(SETTINGS) instanceof Map<?, ?> settings && settings.isEmpty();
                return record(isCpu ? "cpu" : CUDA + device, entries, maps(snapshot.get("segments")));
            }
        }
        throw new IOException("no GPU has entries; was the allocator history recorded?");
    }

    private static MemoryRecord record(
            String device, List<Map<String, Object>> entries, List<Map<String, Object>> segments) throws IOException {
        var nanos = new ArrayList<Long>();
        var open = new HashMap<Long, Integer>(); // index in allocations, by address
        var allocations = new ArrayList<Allocation>();
        var phases = new ArrayList<MemoryPhase>();
        var before = new ArrayList<Allocation>(); // allocated before the first entry
        for (Map<String, Object> entry : entries) {
            String action = String.valueOf(entry.get("action"));
            if (!action.equals("alloc") && !action.equals("free_completed")) {
                continue;
            }
            int event = nanos.size();
            nanos.add(1000 * number(entry, "time_us"));
            long address = number(entry, "addr");
            if (action.equals("alloc")) {
                Allocation allocation = allocation(entry, event);
                open.put(address, allocations.size());
                allocations.add(allocation);
                extend(phases, allocation.phase(), event);
            } else if (open.containsKey(address)) {
                int at = open.remove(address);
                allocations.set(at, allocations.get(at).freedAt(event));
            } else {
                before.add(Allocation.before(address, number(entry, "size"), event, MemoryCategory.OTHER, ""));
            }
        }
        for (Map<String, Object> segment : segments) {
            for (Map<String, Object> block : maps(segment.get("blocks"))) {
                MemoryCategory category = category(block); // null in a history of PyTorch's allocator
                if (category != null && !open.containsKey(number(block, "address"))) {
                    before.add(Allocation.before(
                            number(block, "address"), number(block, "size"), Integer.MAX_VALUE, category, name(block)));
                }
            }
        }
        before.addAll(allocations);
        var closed = before.stream()
                .map(a -> a.until() == Integer.MAX_VALUE ? a.freedAt(nanos.size()) : a)
                .toList();
        return new MemoryRecord(device, closed, phases, nanos, null);
    }

    private static Allocation allocation(Map<String, Object> entry, int event) throws IOException {
        List<Map<String, Object>> frames = maps(entry.get("frames"));
        String path = frames.isEmpty() ? "" : String.valueOf(frames.get(0).get("filename"));
        MemoryCategory category = category(entry);
        boolean ours = category != null; // Python writes no category
        int phaseEnd = ours ? (path + "/").indexOf('/') : 0;
        String place = ours ? path.substring(Math.min(path.length(), phaseEnd + 1)) : frameText(frames, path);
        return new Allocation(
                number(entry, "addr"),
                number(entry, "size"),
                event,
                Integer.MAX_VALUE,
                path.substring(0, phaseEnd),
                place,
                ours ? category : MemoryCategory.OTHER,
                ours ? name(entry) : "");
    }

    private static String[] metadata(Map<String, Object> entry) {
        return String.valueOf(entry.getOrDefault("user_metadata", "")).split(CATEGORY_AND_NAME, 2);
    }

    /** Returns the category that {@link #addPlace} has stored; null if there is none. */
    private static MemoryCategory category(Map<String, Object> entry) {
        return Arrays.stream(MemoryCategory.values())
                .filter(c -> c.toString().equals(metadata(entry)[0]))
                .findFirst()
                .orElse(null);
    }

    private static String name(Map<String, Object> entry) {
        String[] metadata = metadata(entry);
        return metadata.length > 1 ? metadata[1] : "";
    }

    private static String frameText(List<Map<String, Object>> frames, String path) {
        return frames.isEmpty()
                ? ""
                : path + ":" + frames.get(0).get("line") + " " + frames.get(0).get("name");
    }

    /** Extends the last phase by an event, or starts a new one if the name differs. */
    private static void extend(List<MemoryPhase> phases, String name, int event) {
        int last = phases.size() - 1;
        if (last >= 0 && phases.get(last).name().equals(name)) {
            phases.set(last, new MemoryPhase(name, phases.get(last).from(), event + 1));
        } else if (!name.isEmpty()) {
            phases.add(new MemoryPhase(name, event, event + 1));
        }
    }

    private static long number(Map<String, Object> entry, String key) throws IOException {
        if (entry.get(key) instanceof Number number) {
            return number.longValue();
        }
        throw new IOException("an entry has no number " + key + ": " + entry);
    }

    @SuppressWarnings("unchecked")
    private static List<Map<String, Object>> maps(Object list) throws IOException {
        if (list == null) {
            return List.of();
        }
        if (list instanceof List<?> entries && entries.stream().allMatch(e -> e instanceof Map<?, ?>)) {
            return (List<Map<String, Object>>) list;
        }
        throw new IOException("it has entries that are not dictionaries");
    }
}
