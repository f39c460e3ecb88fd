package cs336.units;

import java.io.Console;
import java.io.PrintStream;
import java.time.Duration;
import java.util.Collection;
import java.util.Iterator;
import java.util.function.LongSupplier;
import java.util.stream.IntStream;

/**
 * The progress of a loop, in notebooks and on the command line: the number of completed steps, the elapsed time, and an
 * estimate of the remaining time.
 *
 * <pre>{@code
 * for (int step : Progress.of(1000, "training")) {
 *     train(step);
 * }
 * }</pre>
 *
 * <p>A user sees one line that is rewritten. Without a user, as in a log or an executed copy of a notebook, only the
 * last line is printed, without times, so that two runs print the same.
 */
public final class Progress {
    /** Time between two updates. */
    private static final long UPDATE_NANOS = 100_000_000;

    private static volatile boolean watched = isTerminal();
    private static volatile boolean inNotebook;

    private final String label;
    private final int total;
    private final LongSupplier clock;
    private final long start;
    private long shown;
    private int width;

    /**
     * Starts to measure the time.
     *
     * @param total the number of steps; -1 if it is not known
     */
    Progress(String label, int total, LongSupplier clock) {
        this.label = label;
        this.total = total;
        this.clock = clock;
        start = clock.getAsLong();
        shown = start;
    }

    /** Starts the progress of {@code total} steps, without a display. */
    public static Progress start(int total) {
        return new Progress("", total, System::nanoTime);
    }

    /**
     * Returns the numbers from 0 to {@code count} − 1, and shows the progress of a loop over them.
     *
     * @throws IllegalArgumentException if {@code count} is below 0
     */
    public static Iterable<Integer> of(int count, String label) {
        if (count < 0) {
            throw new IllegalArgumentException("count must be at least 0, not " + count);
        }
        return () -> new Progress(label, count, System::nanoTime)
                .over(IntStream.range(0, count).iterator());
    }

    /** Returns the elements of {@code items}, and shows the progress of a loop over them. */
    public static <T> Iterable<T> of(Iterable<T> items, String label) {
        int total = items instanceof Collection<?> known ? known.size() : -1;
        return () -> new Progress(label, total, System::nanoTime).over(items.iterator());
    }

    /**
     * Shows progress below the running cell instead of on standard error. Kernels call this before each cell.
     *
     * @param isWatched whether a user watches the cell
     */
    public static void inNotebook(boolean isWatched) {
        watched = isWatched;
        inNotebook = true;
    }

    private static boolean isTerminal() {
        Console console = System.console();
        if (console == null) {
            return false;
        }
        try {
            // From JDK 22 on there is a console without a terminal, too.
            return (boolean) Console.class.getMethod("isTerminal").invoke(console);
        } catch (ReflectiveOperationException e) {
            return true;
        }
    }

    <T> Iterator<T> over(Iterator<T> items) {
        return new Iterator<>() {
            private int done;

            @Override
            public boolean hasNext() {
                boolean hasNext = items.hasNext();
                if (!hasNext) {
                    end(done);
                }
                return hasNext;
            }

            @Override
            public T next() {
                T item = items.next();
                show(done);
                done++;
                return item;
            }
        };
    }

    private void show(int done) {
        long now = clock.getAsLong();
        if (watched && now - shown >= UPDATE_NANOS) {
            shown = now;
            rewrite(count(done) + " · " + times(done));
        }
    }

    private void end(int done) {
        if (watched) {
            rewrite(count(done) + " · " + time(elapsed()));
            output().println();
        } else {
            output().println(count(done));
        }
        output().flush();
    }

    private static PrintStream output() {
        return inNotebook ? System.out : System.err;
    }

    private void rewrite(String line) {
        output().print("\r" + line + " ".repeat(Math.max(0, width - line.length())));
        output().flush();
        width = line.length();
    }

    private String count(int done) {
        return label + ": " + Separators.of(done) + (total < 0 ? "" : " of " + Separators.of(total));
    }

    private Duration elapsed() {
        return Duration.ofNanos(clock.getAsLong() - start);
    }

    /** Returns the elapsed time and an estimate of the remaining time from the mean time of the completed steps. */
    public String times(int done) {
        Duration elapsed = elapsed();
        String text = time(elapsed) + " elapsed";
        return done == 0 || total < 0
                ? text
                : text + ", about " + time(elapsed.dividedBy(done).multipliedBy(total - done)) + " left";
    }

    /** Returns a time in minutes and seconds, such as {@code 1:05}, with hours if there are any. */
    public static String time(Duration time) {
        long s = Math.round(time.toMillis() / 1000.0);
        return s < 3600 ? "%d:%02d".formatted(s / 60, s % 60) : "%d:%02d:%02d".formatted(s / 3600, s / 60 % 60, s % 60);
    }
}
