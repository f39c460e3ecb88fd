package cs336.profile;

import java.io.IOException;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What was called from where, and how long it took: what flame graphs are drawn from. As text a line is a stack,
 * {@code a;b;c value}, from the outside in; the format of Brendan Gregg's FlameGraph, which many profilers write.
 */
public final class FoldedStacks {
    private static final char SEPARATOR = ';';
    private static final String OUTSIDE = "ProfilerStep"; // of a step, in none of its ranges and operators

    private final List<Stack> stacks;

    /** Which time to add up. */
    public enum Time {
        /** Of threads: each stack ends with what ran there, and its value is self time. */
        CPU,
        /** Of cards: each stack ends with a kernel, under the operators and ranges that started it. */
        DEVICE
    }

    /**
     * One way to get somewhere.
     *
     * @param frames names from the outside in, at least one; none is empty or has a {@code ;} or a line break
     * @param value time in nanoseconds, or whatever a file of others counts; at least 0
     */
    public record Stack(List<String> frames, long value) {
        public Stack {
            frames = List.copyOf(frames);
            if (frames.isEmpty()) {
                throw new IllegalArgumentException("frames must be one name or more");
            }
            for (String frame : frames) {
                if (frame.isEmpty()
                        || frame.indexOf(SEPARATOR) >= 0
                        || frame.lines().count() != 1) {
                    throw new IllegalArgumentException(
                            "a frame must be a name of one line without ';', not '" + frame + "'");
                }
            }
            if (value < 0) {
                throw new IllegalArgumentException("value must be at least 0, not " + value);
            }
        }
    }

    private FoldedStacks(Map<List<String>, Long> values) {
        List<Stack> all = new ArrayList<>();
        values.forEach((frames, value) -> all.add(new Stack(frames, value)));
        stacks = List.copyOf(all);
    }

    /** These stacks; values of equal ones add up. */
    public static FoldedStacks of(List<Stack> stacks) {
        Map<List<String>, Long> values = new LinkedHashMap<>();
        stacks.forEach(stack -> values.merge(stack.frames, stack.value, Long::sum));
        return new FoldedStacks(values);
    }

    /**
     * The stacks of a trace: ranges, operators, CUDA calls, and Python's functions where the trace has them. Steps are
     * left out, so that equal work of all steps adds up. Stacks without time are left out too.
     *
     * <p>Values add up to {@link Trace#hostTime} and {@link Trace#deviceTime}. Kernels whose launch the trace does not
     * have stand alone.
     */
    public static FoldedStacks of(Trace trace, Time time) {
        Map<List<String>, Long> values = new LinkedHashMap<>();
        if (time == Time.CPU) {
            for (HostEvent event : trace.host()) {
                if (event.self() > 0) values.merge(frames(event, false), event.self(), Long::sum);
            }
        } else {
            for (DeviceEvent event : trace.work()) {
                if (event.duration() == 0) continue;
                List<String> frames = event.launch() == null ? new ArrayList<>() : frames(event.launch(), true);
                if (event.launch() != null && event.launch().kind() == HostEventKind.CALL) {
                    frames.remove(frames.size() - 1); // the kernel says it better
                }
                frames.add(frame(event.name()));
                values.merge(frames, event.duration(), Long::sum);
            }
        }
        return new FoldedStacks(values);
    }

    /** @param acrossThreads whether an engine thread's events stand in the ranges of the thread that waits for them */
    private static List<String> frames(HostEvent event, boolean acrossThreads) {
        List<String> frames = new ArrayList<>();
        for (HostEvent at = event; at != null; at = acrossThreads ? at.outer() : at.parent()) {
            if (!at.isStep()) frames.add(frame(at.name()));
        }
        if (frames.isEmpty()) frames.add(OUTSIDE);
        Collections.reverse(frames);
        return frames;
    }

    private static String frame(String name) {
        return name.isEmpty() ? "?" : name.replace(SEPARATOR, ':').replaceAll("\\R", " ");
    }

    /**
     * Reads a file of folded stacks, ours or another profiler's. Lines that are empty or begin with {@code #} are
     * passed over.
     *
     * @throws IOException if the file cannot be read
     * @throws IllegalArgumentException if a line is no stack; the message names it
     */
    public static FoldedStacks read(Path file) throws IOException {
        List<Stack> stacks = new ArrayList<>();
        int number = 0;
        try {
            for (String line : Files.readAllLines(file)) {
                number++;
                if (line.isBlank() || line.startsWith("#")) continue;
                String text = line.stripTrailing();
                int space = text.lastIndexOf(' ');
                stacks.add(new Stack(
                        List.of(text.substring(0, Math.max(space, 0)).strip().split(";")),
                        Long.parseLong(text.substring(space + 1))));
            }
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException(file + " has no folded stacks: it is not text in UTF-8", e);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(
                    file + ", line " + number + " is no folded stack like 'a;b;c 12': " + e.getMessage(), e);
        }
        return of(stacks);
    }

    /**
     * Writes the stacks, one a line.
     *
     * @throws IOException if the file cannot be written
     */
    public void write(Path file) throws IOException {
        Files.writeString(file, toString(), StandardCharsets.UTF_8);
    }

    /** The stacks in the order in which they occurred first. */
    public List<Stack> stacks() {
        return stacks;
    }

    /** The sum of all values. */
    public long total() {
        return stacks.stream().mapToLong(Stack::value).sum();
    }

    /** The text that {@link #write} puts into a file. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder();
        for (Stack stack : stacks) {
            text.append(String.join(";", stack.frames))
                    .append(' ')
                    .append(stack.value)
                    .append('\n');
        }
        return text.toString();
    }
}
