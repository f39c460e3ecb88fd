package cs336.profile.memory;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/**
 * Memory in use over a stretch of a record, by what it holds: as many points as a picture can show, among them the
 * peak.
 *
 * @param points in the order of their events
 * @param phases the phases within, in events of the record
 */
public record MemoryTimeline(List<MemoryPoint> points, List<MemoryPhase> phases) {
    private static final List<String> FIRST_COLUMNS = List.of("event", "phase");

    /** Keeps private copies. */
    public MemoryTimeline {
        points = List.copyOf(points);
        phases = List.copyOf(phases);
    }

    /**
     * What is in use just after an event.
     *
     * @param event counted from the record's first
     * @param bytes one number for each of {@link MemoryCategory}'s values, in their order
     */
    public record MemoryPoint(int event, List<Long> bytes) {
        public MemoryPoint {
            bytes = List.copyOf(bytes);
        }

        /** Bytes that hold this. */
        public long bytes(MemoryCategory category) {
            return bytes.get(category.ordinal());
        }

        /** All bytes. */
        public long total() {
            return bytes.stream().mapToLong(Long::longValue).sum();
        }
    }

    /**
     * Divides a stretch of a record into equal numbers of events and takes from each part the event when most was in
     * use.
     *
     * @throws IllegalArgumentException if the stretch has no event or no point is wanted
     */
    static MemoryTimeline of(MemoryRecord record, int from, int until, int most) {
        if (most < 1 || from < 0 || from >= until || until > record.events()) {
            throw new IllegalArgumentException("no timeline of " + most + " points from event " + from + " to before "
                    + until + " of " + record.events());
        }
        long[][] change = changes(record);
        long[] now = change[0].clone();
        List<MemoryPoint> points = new ArrayList<>();
        int parts = Math.min(most, until - from);
        int part = 0;
        long best = -1;
        MemoryPoint highest = null;
        for (int event = 0; event < until; event++) {
            for (int c = 0; c < now.length; c++) {
                now[c] += change[event + 1][c];
            }
            if (event < from) {
                continue;
            }
            if (record.bytes(event) > best) {
                best = record.bytes(event);
                highest = new MemoryPoint(event, Arrays.stream(now).boxed().toList());
            }
            long partEnd = from + (long) (until - from) * (part + 1) / parts;
            if (event + 1 >= partEnd) {
                points.add(highest);
                part++;
                best = -1;
            }
        }
        List<MemoryPhase> within = record.phases().stream()
                .filter(p -> p.from() < until && p.until() > from && p.from() < p.until())
                .toList();
        return new MemoryTimeline(points, within);
    }

    /** By event + 1 and category, what it changes; at 0 what was there before. */
    private static long[][] changes(MemoryRecord record) {
        long[][] change = new long[record.events() + 1][MemoryCategory.values().length];
        for (Allocation a : record.allocations()) {
            int category = a.category().ordinal();
            change[a.from() + 1][category] += a.bytes();
            if (a.until() < record.events()) {
                change[a.until() + 1][category] -= a.bytes();
            }
        }
        return change;
    }

    /** The point when most is in use. */
    public MemoryPoint peak() {
        MemoryPoint peak = points.get(0);
        for (MemoryPoint p : points) {
            if (p.total() > peak.total()) {
                peak = p;
            }
        }
        return peak;
    }

    /** Writes a row a point: event, phase (name and number, as in {@code forward 2}), and bytes by category. */
    public Path write(Path file) throws IOException {
        var text = new StringBuilder(header()).append('\n');
        for (MemoryPoint p : points) {
            text.append(p.event).append(',').append(phaseAt(p.event)).append(',');
            text.append(p.bytes.stream().map(String::valueOf).collect(Collectors.joining(",")))
                    .append('\n');
        }
        Files.createDirectories(file.toAbsolutePath().getParent());
        return Files.writeString(file, text);
    }

    /**
     * Reads what {@link #write} wrote. A phase then begins and ends at points.
     *
     * @throws IOException if the file cannot be read, or is not of that form; the message names it and the line
     */
    public static MemoryTimeline read(Path file) throws IOException {
        List<String> lines = Files.readAllLines(file);
        if (lines.size() < 2 || !lines.get(0).equals(header())) {
            throw new IOException(file + " is no memory timeline: its first line should be " + header());
        }
        List<MemoryPoint> points = new ArrayList<>();
        List<MemoryPhase> phases = new ArrayList<>();
        String phase = "";
        int begin = 0;
        for (int i = 1; i < lines.size(); i++) {
            String[] cells = lines.get(i).split(",", -1);
            try {
                if (cells.length != FIRST_COLUMNS.size() + MemoryCategory.values().length) {
                    throw new NumberFormatException("cells: " + cells.length);
                }
                int event = Integer.parseInt(cells[0]);
                if (!cells[1].equals(phase)) {
                    addPhase(phases, phase, begin, event);
                    phase = cells[1];
                    begin = event;
                }
                points.add(new MemoryPoint(
                        event,
                        Arrays.stream(cells)
                                .skip(FIRST_COLUMNS.size())
                                .map(Long::valueOf)
                                .toList()));
            } catch (NumberFormatException e) {
                throw new IOException(file + ", line " + (i + 1) + " is no point of a memory timeline", e);
            }
        }
        addPhase(phases, phase, begin, points.get(points.size() - 1).event + 1);
        return new MemoryTimeline(points, phases);
    }

    private static void addPhase(List<MemoryPhase> phases, String numbered, int from, int until) {
        if (!numbered.isEmpty()) {
            phases.add(new MemoryPhase(numbered.replaceFirst(" \\d+$", ""), from, until));
        }
    }

    private static String header() {
        return String.join(",", FIRST_COLUMNS) + ","
                + Arrays.stream(MemoryCategory.values())
                        .map(MemoryCategory::column)
                        .collect(Collectors.joining(","));
    }

    private String phaseAt(int event) {
        for (int i = 0; i < phases.size(); i++) {
            MemoryPhase p = phases.get(i);
            if (p.from() <= event && event < p.until()) {
                long number = phases.subList(0, i + 1).stream()
                        .filter(q -> q.name().equals(p.name()))
                        .count();
                return p.name() + " " + number;
            }
        }
        return "";
    }
}
