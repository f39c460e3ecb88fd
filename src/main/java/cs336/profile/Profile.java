package cs336.profile;

import java.io.IOException;
import java.nio.file.Path;

/**
 * What a {@link Profiler} recorded, or what a trace file holds.
 *
 * @param trace event by event
 */
public record Profile(Trace trace) {
    /**
     * Reads a profile back from the file that {@link #write} or another profiler wrote; see {@link Trace#read}.
     *
     * @throws IOException if the file cannot be read
     * @throws IllegalArgumentException if it is no trace
     */
    public static Profile read(Path file) throws IOException {
        return new Profile(Trace.read(file));
    }

    /**
     * Writes the trace for Perfetto and {@link #read}; see {@link Trace#write}.
     *
     * @throws IOException if the file cannot be written
     */
    public void write(Path file) throws IOException {
        trace.write(file);
    }

    /** Operators and ranges by name. */
    public OpTable ops() {
        return OpTable.of(trace);
    }

    /** Kernels and copies by name; empty where no card worked. */
    public KernelTable kernels() {
        return KernelTable.of(trace);
    }

    /** What took the time, by the way there. */
    public FoldedStacks stacks(FoldedStacks.Time time) {
        return FoldedStacks.of(trace, time);
    }

    /** The same in time of cards where one worked, otherwise of threads. */
    public FoldedStacks stacks() {
        return stacks(trace.work().isEmpty() ? FoldedStacks.Time.CPU : FoldedStacks.Time.DEVICE);
    }

    /** How many steps were marked; their numbers begin at 0. */
    public int steps() {
        return trace.steps().length;
    }

    /** The tables as text. */
    @Override
    public String toString() {
        return trace.work().isEmpty() ? ops().toString() : kernels() + "\n\n" + ops();
    }
}
