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

    private final List<TimeInterval> intervals;

    /**
     * A stretch of time.
     *
     * @param start in nanoseconds
     * @param end likewise; the first moment after it
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

    /** The moments in which at least one of these runs, in any order: {@code O(n log n)}. */
    public static Intervals of(Collection<TimeInterval> intervals) {
        List<TimeInterval> sorted = intervals.stream()
                .filter(interval -> interval.start < interval.end)
                .sorted(Comparator.comparingLong(TimeInterval::start))
                .toList();
        var merged = new ArrayList<TimeInterval>();
        for (TimeInterval interval : sorted) {
            TimeInterval last = merged.isEmpty() ? null : merged.get(merged.size() - 1);
            if (last == null || interval.start > last.end) merged.add(interval);
            else if (interval.end > last.end) merged.set(merged.size() - 1, new TimeInterval(last.start, interval.end));
        }
        return new Intervals(List.copyOf(merged));
    }

    /** The moments in which at least one of these events runs. */
    public static Intervals during(Collection<? extends TraceEvent> events) {
        return of(events.stream()
                .map(event -> new TimeInterval(event.start(), event.end()))
                .toList());
    }

    /** The stretches, in order; none meets the next. */
    public List<TimeInterval> intervals() {
        return intervals;
    }

    /** How long all stretches are together, in nanoseconds. */
    public long total() {
        return intervals.stream()
                .mapToLong(interval -> interval.end - interval.start)
                .sum();
    }

    /** The moments of both: {@code O(n + m)}. */
    public Intervals and(Intervals other) {
        var common = new ArrayList<TimeInterval>();
        int i = 0;
        int j = 0;
        while (i < intervals.size() && j < other.intervals.size()) {
            TimeInterval a = intervals.get(i);
            TimeInterval b = other.intervals.get(j);
            long start = Math.max(a.start, b.start);
            long end = Math.min(a.end, b.end);
            if (start < end) common.add(new TimeInterval(start, end));
            if (a.end < b.end) i++;
            else j++;
        }
        return new Intervals(List.copyOf(common));
    }

    /** The moments of this one or the other. */
    public Intervals or(Intervals other) {
        var all = new ArrayList<>(intervals);
        all.addAll(other.intervals);
        return of(all);
    }

    /** The moments of this one that are not of the other: {@code O(n + m)}. */
    public Intervals minus(Intervals other) {
        var rest = new ArrayList<TimeInterval>();
        int j = 0;
        for (TimeInterval interval : intervals) {
            long from = interval.start;
            while (j < other.intervals.size() && other.intervals.get(j).end <= from) j++;
            for (int k = j; k < other.intervals.size() && other.intervals.get(k).start < interval.end; k++) {
                TimeInterval hole = other.intervals.get(k);
                if (hole.start > from) rest.add(new TimeInterval(from, hole.start));
                from = Math.max(from, hole.end);
            }
            if (from < interval.end) rest.add(new TimeInterval(from, interval.end));
        }
        return new Intervals(List.copyOf(rest));
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
