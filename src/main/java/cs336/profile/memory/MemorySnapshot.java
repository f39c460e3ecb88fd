package cs336.profile.memory;

import cs336.torch.Device;
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
 * PyTorch's memory snapshots, written and read. A snapshot is a pickled dictionary; its {@code device_traces} has a
 * list of entries for each card, {@code alloc}, {@code free_requested} and {@code free_completed} among them.
 */
public final class MemorySnapshot {
    private static final String TRACES = "device_traces";
    private static final String CATEGORY_AND_NAME = ": ";

    private MemorySnapshot() {}

    /**
     * The record as a snapshot.
     *
     * @param history what PyTorch's allocator has written, whose entries get phase and place as their stack; null to
     *     write entries from the record alone
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
     * Reads a snapshot, of ours or of a Python program.
     *
     * @return the record of the first card that has entries. Sizes are those asked for, before the allocator rounds
     *     them up. In a snapshot of ours phases, places and categories are as they were recorded; in one of others all
     *     is {@link MemoryCategory#OTHER}, under the innermost frame of its stack.
     * @throws IOException if the file cannot be read or is no snapshot; the message names it and says what is wrong
     */
    public static MemoryRecord read(Path file) throws IOException {
        byte[] bytes = Files.readAllBytes(file);
        try {
            return record(load(bytes));
        } catch (IOException e) {
            throw new IOException(file + " is no memory snapshot: " + e.getMessage(), e);
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> load(byte[] bytes) throws IOException {
        Object loaded;
        try {
            loaded = new Unpickler().loads(bytes);
        } catch (RuntimeException | IOException e) {
            throw new IOException("it is not a pickle (" + e.getMessage() + ")", e);
        }
        if (loaded instanceof Map<?, ?> map && map.get(TRACES) instanceof List<?>) {
            return (Map<String, Object>) map;
        }
        throw new IOException("it has no " + TRACES);
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
        for (int card = 0; card < record.device().index(); card++) {
            traces.add(new ArrayList<>());
        }
        traces.add(entries);
        var snapshot = new LinkedHashMap<String, Object>();
        snapshot.put("segments", new ArrayList<>());
        snapshot.put(TRACES, traces);
        snapshot.put("allocator_settings", new HashMap<>());
        snapshot.put("external_annotations", new ArrayList<>());
        return snapshot;
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

    /** Phase and place as a stack, the innermost range first. */
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

    /** The allocator's own history; the n-th allocation at an address there is the n-th one here. */
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
        if (record.device().index() < traces.size()) {
            for (Map<String, Object> entry : maps(traces.get(record.device().index()))) {
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
                if ("active_allocated".equals(block.get("state")) && allocation != null) {
                    addPlace(block, allocation);
                }
            }
        }
        return snapshot;
    }

    private static MemoryRecord record(Map<String, Object> snapshot) throws IOException {
        List<?> traces = (List<?>) snapshot.get(TRACES);
        for (int card = 0; card < traces.size(); card++) {
            List<Map<String, Object>> entries = maps(traces.get(card));
            if (!entries.isEmpty()) {
                return record(entries);
            }
        }
        throw new IOException("no card has entries; was its history recorded?");
    }

    private static MemoryRecord record(List<Map<String, Object>> entries) throws IOException {
        var nanos = new ArrayList<Long>();
        var open = new HashMap<Long, Integer>(); // where in the list, by address
        var allocations = new ArrayList<Allocation>();
        var phases = new ArrayList<MemoryPhase>();
        var found = new ArrayList<Allocation>(); // allocated before the first entry
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
                allocations.set(at, allocations.get(at).until(event));
            } else {
                found.add(new Allocation(
                        address,
                        number(entry, "size"),
                        Allocation.BEFORE,
                        event,
                        "",
                        "before the record",
                        MemoryCategory.OTHER,
                        ""));
            }
        }
        found.addAll(allocations);
        var closed = found.stream()
                .map(a -> a.until() == Integer.MAX_VALUE ? a.until(nanos.size()) : a)
                .toList();
        return new MemoryRecord(Device.cpu(), closed, phases, nanos, null);
    }

    private static Allocation allocation(Map<String, Object> entry, int event) throws IOException {
        List<Map<String, Object>> frames = maps(entry.get("frames"));
        String path = frames.isEmpty() ? "" : String.valueOf(frames.get(0).get("filename"));
        String[] metadata =
                String.valueOf(entry.getOrDefault("user_metadata", "")).split(CATEGORY_AND_NAME, 2);
        MemoryCategory category = Arrays.stream(MemoryCategory.values())
                .filter(c -> c.toString().equals(metadata[0]))
                .findFirst()
                .orElse(null);
        boolean ours = category != null;
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
                ours && metadata.length > 1 ? metadata[1] : "");
    }

    private static String frameText(List<Map<String, Object>> frames, String path) {
        return frames.isEmpty()
                ? ""
                : path + ":" + frames.get(0).get("line") + " " + frames.get(0).get("name");
    }

    /** Phases last from their first allocation to the next one's. */
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
        throw new IOException("it has other entries than dictionaries");
    }
}
