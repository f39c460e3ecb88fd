package cs336.profile;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;

/**
 * A set of moments: stretches of time in whole nanoseconds, in order, none of which meet. Each holds its start and not
 * its end, so two events of which one begins as the other ends have no moment in common, and an event without duration
 * has none at all. All is arithmetic of integers; {@code a.and(b).total() + a.minus(b).total() == a.total()} holds to
 * the nanosecond.
 */
public final class Intervals {
    /** No moment. */
    public static final Intervals NONE = new Intervals(List.of());

    private final List<Interval> parts;

    /**
     * A stretch of time.
     *
     * @param start in nanoseconds
     * @param end likewise; the first moment after it
     */
    public record Interval(long start, long end) {
        public Interval {
            if (start > end) {
                throw new IllegalArgumentException("start " + start + " must not be after end " + end);
            }
        }
    }

    private Intervals(List<Interval> parts) {
        this.parts = parts;
    }

    /** The moments in which at least one of these runs, in any order: {@code O(n log n)}. */
    public static Intervals of(Collection<Interval> intervals) {
        List<Interval> sorted = intervals.stream()
                .filter(part -> part.start < part.end)
                .sorted(Comparator.comparingLong(Interval::start))
                .toList();
        var merged = new ArrayList<Interval>();
        for (Interval part : sorted) {
            Interval last = merged.isEmpty() ? null : merged.get(merged.size() - 1);
            if (last == null || part.start > last.end) merged.add(part);
            else if (part.end > last.end) merged.set(merged.size() - 1, new Interval(last.start, part.end));
        }
        return new Intervals(List.copyOf(merged));
    }

    /** The moments in which at least one of these events runs. */
    public static Intervals during(Collection<? extends TraceEvent> events) {
        return of(events.stream()
                .map(event -> new Interval(event.start(), event.end()))
                .toList());
    }

    /** The stretches, in order; none meets the next. */
    public List<Interval> parts() {
        return parts;
    }

    /** How long all stretches are together, in nanoseconds. */
    public long total() {
        return parts.stream().mapToLong(part -> part.end - part.start).sum();
    }

    /** The moments of both: {@code O(n + m)}. */
    public Intervals and(Intervals other) {
        var common = new ArrayList<Interval>();
        int i = 0;
        int j = 0;
        while (i < parts.size() && j < other.parts.size()) {
            Interval a = parts.get(i);
            Interval b = other.parts.get(j);
            long start = Math.max(a.start, b.start);
            long end = Math.min(a.end, b.end);
            if (start < end) common.add(new Interval(start, end));
            if (a.end < b.end) i++;
            else j++;
        }
        return new Intervals(List.copyOf(common));
    }

    /** The moments of this one or the other. */
    public Intervals or(Intervals other) {
        var all = new ArrayList<>(parts);
        all.addAll(other.parts);
        return of(all);
    }

    /** The moments of this one that are not of the other: {@code O(n + m)}. */
    public Intervals minus(Intervals other) {
        var rest = new ArrayList<Interval>();
        int j = 0;
        for (Interval part : parts) {
            long from = part.start;
            while (j < other.parts.size() && other.parts.get(j).end <= from) j++;
            for (int k = j; k < other.parts.size() && other.parts.get(k).start < part.end; k++) {
                Interval hole = other.parts.get(k);
                if (hole.start > from) rest.add(new Interval(from, hole.start));
                from = Math.max(from, hole.end);
            }
            if (from < part.end) rest.add(new Interval(from, part.end));
        }
        return new Intervals(List.copyOf(rest));
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Intervals that && parts.equals(that.parts);
    }

    @Override
    public int hashCode() {
        return parts.hashCode();
    }

    @Override
    public String toString() {
        return parts.toString();
    }
}
