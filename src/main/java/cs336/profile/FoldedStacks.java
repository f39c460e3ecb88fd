package cs336.profile;

import cs336.bench.WholeFile;
import java.io.IOException;
import java.nio.charset.CharacterCodingException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * Folded stacks: time by call stack, the input of a {@link FlameGraph}. As text each line is a stack, {@code a;b;c
 * value}, outermost frame first. This is the format of Brendan Gregg's FlameGraph, which many profilers write.
 */
public final class FoldedStacks {
    private static final char SEPARATOR = ';';
    private static final String OUTSIDE = "ProfilerStep"; // time of a step outside its ranges and operators

    private final List<Stack> stacks;

    /** The time that the values measure. */
    public enum Time {
        /** CPU time: the value of a stack is the self time of its innermost frame. */
        CPU,
        /** GPU time: each stack ends with a kernel, below the operators and ranges that launched it. */
        DEVICE
    }

    /**
     * A call stack with its value.
     *
     * @param frames names from the outermost frame inwards, at least one; each is a non-empty line without {@code ;}
     * @param value time in nanoseconds, or the count of another profiler; at least 0
     */
    public record Stack(List<String> frames, long value) {
        public Stack {
            Objects.requireNonNull(frames, "frames must not be null");
            frames = List.copyOf(frames);
            if (frames.isEmpty()) {
                throw new IllegalArgumentException("frames must have at least one name, not none");
            }
            for (String frame : frames) {
                if (frame.isEmpty()
                        || frame.indexOf(SEPARATOR) >= 0
                        || frame.lines().count() != 1) {
                    throw new IllegalArgumentException(
                            "a frame must be a non-empty line without ';', not '" + frame + "'");
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

    /** Returns these stacks; the values of equal stacks are summed. */
    public static FoldedStacks of(List<Stack> stacks) {
        Map<List<String>, Long> values = new LinkedHashMap<>();
        stacks.forEach(stack -> values.merge(stack.frames, stack.value, Long::sum));
        return new FoldedStacks(values);
    }

    /**
     * Returns the stacks of a trace. Frames are ranges, operators, CUDA API calls and, if recorded, Python functions.
     * Steps are left out, so that the same work of all steps is summed. Stacks without time are left out too.
     *
     * <p>The total is the sum of the self times of all CPU threads or of the durations of all GPU work. Kernels whose
     * launch is not in the trace have a separate stack.
     */
    public static FoldedStacks of(Trace trace, Time time) {
        Map<List<String>, Long> values = new LinkedHashMap<>();
        if (time == Time.CPU) {
            for (HostEvent event : trace.host()) {
                if (event.self() > 0) {
                    values.merge(frames(event, false), event.self(), Long::sum);
                }
            }
        } else {
            for (DeviceEvent event : trace.work()) {
                if (event.duration() == 0) {
                    continue;
                }
                List<String> frames = event.launch() == null ? new ArrayList<>() : frames(event.launch(), true);
                if (event.launch() != null && event.launch().kind() == HostEventKind.CALL) {
                    frames.remove(frames.size() - 1); // the kernel is more specific
                }
                frames.add(frame(event.name()));
                values.merge(frames, event.duration(), Long::sum);
            }
        }
        return new FoldedStacks(values);
    }

    /** @param acrossThreads whether events of an engine thread get the ranges of the thread that waits for it */
    private static List<String> frames(HostEvent event, boolean acrossThreads) {
        List<String> frames = new ArrayList<>();
        for (HostEvent at = event; at != null; at = acrossThreads ? at.outer() : at.parent()) {
            if (!at.isStep()) {
                frames.add(frame(at.name()));
            }
        }
        if (frames.isEmpty()) {
            frames.add(OUTSIDE);
        }
        Collections.reverse(frames);
        return frames;
    }

    private static String frame(String name) {
        return name.isEmpty() ? "?" : name.replace(SEPARATOR, ':').replaceAll("\\R", " ");
    }

    /**
     * Reads a file of folded stacks of this or another profiler. Skips empty lines and lines that start with {@code #}.
     *
     * @throws IOException if the file cannot be read
     * @throws IllegalArgumentException if a line is not a folded stack; the message names the file and the line
     */
    public static FoldedStacks read(Path file) throws IOException {
        List<Stack> stacks = new ArrayList<>();
        int number = 0;
        try {
            for (String line : Files.readAllLines(file)) {
                number++;
                if (line.isBlank() || line.startsWith("#")) {
                    continue;
                }
                String text = line.stripTrailing();
                int space = text.lastIndexOf(' ');
                stacks.add(new Stack(
                        List.of(text.substring(0, Math.max(space, 0)).strip().split(";")),
                        Long.parseLong(text.substring(space + 1))));
            }
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException(file + " is not a file of folded stacks: it is not UTF-8 text", e);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(
                    file + ", line " + number + " is not a folded stack such as 'a;b;c 12': " + e.getMessage(), e);
        }
        return of(stacks);
    }

    /**
     * Writes the stacks, one per line.
     *
     * @throws IOException if the file cannot be written
     */
    public void write(Path file) throws IOException {
        WholeFile.write(file, toString());
    }

    /** Returns the stacks in the order of their first occurrence. */
    public List<Stack> stacks() {
        return stacks;
    }

    /** Returns the sum of all values: nanoseconds, or the counts of another profiler. */
    public long total() {
        return stacks.stream().mapToLong(Stack::value).sum();
    }

    /** Returns the text that {@link #write} writes. */
    @Override
    public String toString() {
        var text = new StringBuilder();
        for (Stack stack : stacks) {
            text.append(String.join(";", stack.frames))
                    .append(' ')
                    .append(stack.value)
                    .append('\n');
        }
        return text.toString();
    }
}
