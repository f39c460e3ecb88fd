package cs336.profile;

import java.io.IOException;
import java.nio.file.Path;

/**
 * A recording of a {@link Profiler}, or the contents of a trace file.
 *
 * @param trace the recorded events
 */
public record Profile(Trace trace) {
    /**
     * Reads a trace file of this or another profiler; see {@link Trace#read}.
     *
     * @throws IOException if the file cannot be read
     * @throws IllegalArgumentException if the file is not a trace
     */
    public static Profile read(Path file) throws IOException {
        return new Profile(Trace.read(file));
    }

    /**
     * Writes the trace for Perfetto, Chrome and {@link #read}; see {@link Trace#write}.
     *
     * @throws IOException if the file cannot be written
     */
    public void write(Path file) throws IOException {
        trace.write(file);
    }

    /** Returns the table of operators and ranges by name. */
    public OpTable ops() {
        return OpTable.of(trace);
    }

    /** Returns the table of kernels and copies by name; empty without GPU work. */
    public KernelTable kernels() {
        return KernelTable.of(trace);
    }

    /** Returns the folded stacks, the input of a flame graph. */
    public FoldedStacks stacks(FoldedStacks.Time time) {
        return FoldedStacks.of(trace, time);
    }

    /** Returns the folded stacks of GPU time or, without GPU work, of CPU time. */
    public FoldedStacks stacks() {
        return stacks(trace.work().isEmpty() ? FoldedStacks.Time.CPU : FoldedStacks.Time.DEVICE);
    }

    /** Returns the number of marked steps; they are numbered from 0. */
    public int steps() {
        return trace.steps().length;
    }

    /** Returns the tables as aligned text. */
    @Override
    public String toString() {
        return trace.work().isEmpty() ? ops().toString() : kernels() + "\n\n" + ops();
    }
}
