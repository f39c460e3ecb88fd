package cs336.profile.memory;

import cs336.bench.WholeFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.stream.Collectors;

/**
 * Memory in use by category over an interval of a recording, reduced to the number of points that a figure can show.
 * The peak is always one of them.
 *
 * @param points points ordered by event
 * @param phases phases that overlap the interval, in events of the recording
 */
public record MemoryTimeline(List<MemoryPoint> points, List<MemoryPhase> phases) {
    private static final List<String> FIRST_COLUMNS = List.of("event", "phase");

    public MemoryTimeline {
        Objects.requireNonNull(phases, "phases must not be null");
        Objects.requireNonNull(points, "points must not be null");
        points = List.copyOf(points);
        if (points.isEmpty()) {
            throw new IllegalArgumentException("points must contain at least one point");
        }
        phases = List.copyOf(phases);
    }

    /**
     * The memory in use just after an event.
     *
     * @param event event of the recording
     * @param bytes bytes in use per {@link MemoryCategory}, in the order of its values
     */
    public record MemoryPoint(int event, List<Long> bytes) {
        public MemoryPoint {
            Objects.requireNonNull(bytes, "bytes must not be null");
            bytes = List.copyOf(bytes);
        }

        /** Returns the bytes of one category. */
        public long bytes(MemoryCategory category) {
            return bytes.get(category.ordinal());
        }

        /** Returns the bytes of all categories. */
        public long total() {
            return bytes.stream().mapToLong(Long::longValue).sum();
        }
    }

    /**
     * Divides an interval of a recording into sections of equally many events and returns the point of highest memory
     * use of each section.
     *
     * @throws IllegalArgumentException if the interval contains no event or {@code maxPoints} is below 1
     */
    static MemoryTimeline of(MemoryRecord record, int from, int until, int maxPoints) {
        if (maxPoints < 1 || from < 0 || from >= until || until > record.events()) {
            throw new IllegalArgumentException("points " + maxPoints + " must be at least 1, and from " + from
                    + " and until " + until + " must enclose an event; the recording has " + record.events());
        }
        long[][] change = changes(record);
        long[] now = change[0].clone();
        List<MemoryPoint> points = new ArrayList<>();
        int sections = Math.min(maxPoints, until - from);
        int section = 0;
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
            long sectionEnd = from + (long) (until - from) * (section + 1) / sections;
            if (event + 1 >= sectionEnd) {
                points.add(highest);
                section++;
                best = -1;
            }
        }
        List<MemoryPhase> within = record.phases().stream()
                .filter(p -> p.from() < until && p.until() > from && p.from() < p.until())
                .toList();
        return new MemoryTimeline(points, within);
    }

    /**
     * Returns the change of memory use in bytes, by event + 1 and category; index 0 is the memory in use before the
     * recording.
     */
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

    /** Returns this timeline with zero bytes of one category. */
    MemoryTimeline without(MemoryCategory category) {
        List<MemoryPoint> remaining = new ArrayList<>();
        for (MemoryPoint point : points) {
            var bytes = new ArrayList<Long>(point.bytes);
            bytes.set(category.ordinal(), 0L);
            remaining.add(new MemoryPoint(point.event, bytes));
        }
        return new MemoryTimeline(remaining, phases);
    }

    /** Returns the first point of highest memory use. */
    public MemoryPoint peak() {
        MemoryPoint peak = points.get(0);
        for (MemoryPoint p : points) {
            if (p.total() > peak.total()) {
                peak = p;
            }
        }
        return peak;
    }

    /**
     * Writes one CSV row per point: event, phase with its number as in {@code forward 2}, and bytes by category.
     *
     * @return the file
     * @throws IOException if the file cannot be written
     */
    public Path write(Path file) throws IOException {
        var text = new StringBuilder(header()).append('\n');
        for (MemoryPoint p : points) {
            text.append(p.event)
                    .append(',')
                    .append(phaseAt(p.event).replaceAll("\\R", " "))
                    .append(',');
            text.append(p.bytes.stream().map(String::valueOf).collect(Collectors.joining(",")))
                    .append('\n');
        }
        Files.createDirectories(file.toAbsolutePath().getParent());
        return WholeFile.write(file, text.toString());
    }

    /**
     * Reads a file of {@link #write}. The limits of phases are then rounded to points.
     *
     * @throws IOException if the file cannot be read or is not a timeline; the message names the file and the line
     */
    public static MemoryTimeline read(Path file) throws IOException {
        List<String> lines = WholeFile.read(file).lines().toList();
        if (lines.size() < 2 || !lines.get(0).equals(header())) {
            throw new IOException(file + " is not a memory timeline: its first line must be " + header());
        }
        List<MemoryPoint> points = new ArrayList<>();
        List<MemoryPhase> phases = new ArrayList<>();
        String phase = "";
        int begin = 0;
        for (int i = 1; i < lines.size(); i++) {
            String[] cells = lines.get(i).split(",", -1);
            try {
                int categories = cells.length - MemoryCategory.values().length;
                if (categories < FIRST_COLUMNS.size()) {
                    throw new NumberFormatException("cells: " + cells.length);
                }
                int event = Integer.parseInt(cells[0]);
                String of = String.join(",", Arrays.copyOfRange(cells, 1, categories)); // a name may contain commas
                if (!of.equals(phase)) {
                    addPhase(phases, phase, begin, event);
                    phase = of;
                    begin = event;
                }
                points.add(new MemoryPoint(
                        event,
                        Arrays.stream(cells).skip(categories).map(Long::valueOf).toList()));
            } catch (NumberFormatException e) {
                throw new IOException(file + ", line " + (i + 1) + " is not a point of a memory timeline", e);
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
