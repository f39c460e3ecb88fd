package cs336.profile;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;

/**
 * A set of points in time: disjoint, sorted intervals in whole nanoseconds. Intervals are half-open: each contains its
 * start but not its end. Two events that only touch therefore do not overlap, and an event without duration is empty.
 * All arithmetic is exact, so {@code a.and(b).total() + a.minus(b).total() == a.total()}.
 */
public final class Intervals {
    /** The empty set. */
    public static final Intervals NONE = new Intervals(List.of());

    private final List<TimeInterval> intervals;

    /**
     * A half-open interval of time.
     *
     * @param start first nanosecond
     * @param end first nanosecond after the interval
     */
    public record TimeInterval(long start, long end) {
        public TimeInterval {
            if (start > end) {
                throw new IllegalArgumentException("start " + start + " must not be after end " + end);
            }
        }
    }

    private Intervals(List<TimeInterval> intervals) {
        this.intervals = intervals;
    }

    /** Returns the union of these intervals, which may overlap and be in any order, in {@code O(n log n)}. */
    public static Intervals of(Collection<TimeInterval> intervals) {
        List<TimeInterval> sorted = intervals.stream()
                .filter(interval -> interval.start < interval.end)
                .sorted(Comparator.comparingLong(TimeInterval::start))
                .toList();
        var merged = new ArrayList<TimeInterval>();
        for (TimeInterval interval : sorted) {
            TimeInterval last = merged.isEmpty() ? null : merged.get(merged.size() - 1);
            if (last == null || interval.start > last.end) {
                merged.add(interval);
            } else if (interval.end > last.end) {
                merged.set(merged.size() - 1, new TimeInterval(last.start, interval.end));
            }
        }
        return new Intervals(List.copyOf(merged));
    }

    /** Returns the time in which at least one of these events ran. */
    public static Intervals during(Collection<? extends TraceEvent> events) {
        return of(events.stream()
                .map(event -> new TimeInterval(event.start(), event.end()))
                .toList());
    }

    /** Returns the disjoint intervals in ascending order; no two of them touch. */
    public List<TimeInterval> intervals() {
        return intervals;
    }

    /** Returns the sum of the lengths of all intervals, in nanoseconds. */
    public long total() {
        return intervals.stream()
                .mapToLong(interval -> interval.end - interval.start)
                .sum();
    }

    /** Returns the intersection of both sets, in {@code O(n + m)}. */
    public Intervals and(Intervals other) {
        var common = new ArrayList<TimeInterval>();
        int i = 0;
        int j = 0;
        while (i < intervals.size() && j < other.intervals.size()) {
            TimeInterval a = intervals.get(i);
            TimeInterval b = other.intervals.get(j);
            long start = Math.max(a.start, b.start);
            long end = Math.min(a.end, b.end);
            if (start < end) {
                common.add(new TimeInterval(start, end));
            }
            if (a.end < b.end) {
                i++;
            } else {
                j++;
            }
        }
        return new Intervals(List.copyOf(common));
    }

    /** Returns the union of both sets. */
    public Intervals or(Intervals other) {
        var all = new ArrayList<>(intervals);
        all.addAll(other.intervals);
        return of(all);
    }

    /** Returns this set without the other one, in {@code O(n + m)}. */
    public Intervals minus(Intervals other) {
        var difference = new ArrayList<TimeInterval>();
        int j = 0;
        for (TimeInterval interval : intervals) {
            long from = interval.start;
            while (j < other.intervals.size() && other.intervals.get(j).end <= from) {
                j++;
            }
            for (int k = j; k < other.intervals.size() && other.intervals.get(k).start < interval.end; k++) {
                TimeInterval hole = other.intervals.get(k);
                if (hole.start > from) {
                    difference.add(new TimeInterval(from, hole.start));
                }
                from = Math.max(from, hole.end);
            }
            if (from < interval.end) {
                difference.add(new TimeInterval(from, interval.end));
            }
        }
        return new Intervals(List.copyOf(difference));
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Intervals that && intervals.equals(that.intervals);
    }

    @Override
    public int hashCode() {
        return intervals.hashCode();
    }

    @Override
    public String toString() {
        return intervals.toString();
    }
}
