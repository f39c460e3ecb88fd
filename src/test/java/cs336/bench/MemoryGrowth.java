package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import com.sun.jna.NativeLibrary;
import cs336.torch.Device;
import cs336.torch.MemoryStats;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/**
 * Checks that repeated work leaves no memory in use. The work runs in a JVM of its own, where no other test allocates.
 * The child reports its memory after each of several blocks of steps, and a typical block must not add to it.
 *
 * <p>A typical block is the median one: a leak adds to every block, but what is allocated or freed once, such as a
 * workspace or compiled code, changes only one.
 */
public final class MemoryGrowth {
    private static final Duration LIMIT = Duration.ofMinutes(10); // the first process on a machine unpacks libraries
    private static final Device CPU = Device.cpu();
    private static final int WARM_UP = 2; // blocks
    private static final int BLOCKS = 8;
    private static final long RESIDENT_LIMIT = 16 << 20; // over all blocks: malloc and mmap keep pages for later
    private static final int SAMPLES = 5;
    private static final int PAUSE_MS = 20;

    /**
     * A heap that never changes its size and is resident from the start: what the process grows by is native memory.
     */
    private static final Map<String, String> FIXED_HEAP =
            Map.of("JDK_JAVA_OPTIONS", "-XX:+UseSerialGC -Xms128m -Xmx128m -XX:+AlwaysPreTouch");

    /** Work in steps. */
    public interface Work {
        void step() throws Exception;
    }

    private MemoryGrowth() {}

    /**
     * Runs blocks of steps, and fails if memory grows from block to block.
     *
     * @param work has a constructor without arguments
     * @param steps of a block: 2 blocks of warm-up and 8 that are measured
     * @param bytesPerStep how much a step may leave; a limit for noise, far below the smallest leak
     */
    public static void assertFlat(Class<? extends Work> work, int steps, double bytesPerStep)
            throws IOException, InterruptedException {
        List<long[]> blocks = answers(work, steps, BLOCKS);
        long[] inUse = blocks.stream().mapToLong(bytes -> bytes[0]).toArray();
        long[] resident = blocks.stream().mapToLong(bytes -> bytes[1]).toArray();
        double perStep = typicalGrowth(inUse) / steps;
        assertTrue(
                perStep <= bytesPerStep,
                () -> "a step leaves %.0f bytes in use, more than %.0f. In use after each %d steps: %s"
                        .formatted(perStep, bytesPerStep, steps, Arrays.toString(inUse)));
        assertTrue(
                slope(resident) * BLOCKS <= RESIDENT_LIMIT,
                () -> "the process grows. Resident bytes after each %d steps: %s"
                        .formatted(steps, Arrays.toString(resident)));
    }

    /**
     * Bytes by which the peak of the resident set during one step exceeds what was in use before it; a step before that
     * is warm-up.
     */
    public static long peakOfStep(Class<? extends Work> work) throws IOException, InterruptedException {
        return answers(work, 0, 1).get(0)[0];
    }

    private static List<long[]> answers(Class<? extends Work> work, int steps, int number)
            throws IOException, InterruptedException {
        try (var process = ChildJvm.start(MemoryGrowth.class, FIXED_HEAP, line -> {})) {
            process.tell(work.getName());
            process.tell(String.valueOf(steps));
            var answers = new ArrayList<long[]>();
            while (answers.size() < number) {
                String answer = process.answer(LIMIT);
                if (answer == null) fail(String.join("\n", process.end().said()));
                answers.add(Arrays.stream(answer.split(" "))
                        .mapToLong(Long::parseLong)
                        .toArray());
            }
            return answers;
        }
    }

    /** The median of the differences between one value and the next. */
    static double typicalGrowth(long... values) {
        return Summary.of(IntStream.range(1, values.length)
                        .mapToDouble(i -> values[i] - values[i - 1])
                        .toArray())
                .median();
    }

    /** The median slope of all pairs (Theil and Sen), for values that go up and down from one to the next. */
    static double slope(long... values) {
        return Summary.of(IntStream.range(0, values.length)
                        .boxed()
                        .flatMapToDouble(i -> IntStream.range(i + 1, values.length)
                                .mapToDouble(j -> (double) (values[j] - values[i]) / (j - i)))
                        .toArray())
                .median();
    }

    /** The child: takes the work's class and the steps of a block, none to measure one step's peak. */
    public static void main(String[] none) throws Exception {
        var parent = new ChildJvm.Child();
        Constructor<?> constructor = Class.forName(parent.next()).getDeclaredConstructor();
        constructor.setAccessible(true);
        int steps = Integer.parseInt(parent.next());
        var work = (Work) constructor.newInstance();
        if (steps == 0) parent.answer(String.valueOf(peakOfStep(work)));
        for (int block = 0; steps > 0 && block < WARM_UP + BLOCKS; block++) {
            for (int step = 0; step < steps; step++) work.step();
            String bytes = inUse() + " " + MemoryStats.current(CPU);
            if (block >= WARM_UP) parent.answer(bytes);
        }
        parent.end(0);
    }

    private static long peakOfStep(Work work) throws Exception {
        work.step();
        System.gc();
        long before = MemoryStats.current(CPU);
        MemoryStats.resetPeak(CPU);
        work.step();
        return MemoryStats.peak(CPU) - before;
    }

    /**
     * Bytes that C's allocator has handed out and Java's heap holds: the least of several samples. Between them end
     * what another thread does, such as the compiler, and references that only a second collection clears.
     */
    private static long inUse() throws InterruptedException {
        long least = Long.MAX_VALUE;
        for (int sample = 0; sample < SAMPLES; sample++) {
            System.gc();
            Thread.sleep(PAUSE_MS);
            Runtime java = Runtime.getRuntime();
            least = Math.min(least, allocatedByC() + java.totalMemory() - java.freeMemory());
        }
        return least;
    }

    private static long allocatedByC() {
        try (var mallinfo2 = new com.sun.jna.Memory(80)) { // a struct of ten numbers, see mallinfo(3)
            NativeLibrary.getProcess().getFunction("mallinfo2").invokeVoid(new Object[] {mallinfo2});
            long large = mallinfo2.getLong(4 * Long.BYTES); // hblkhd
            long small = mallinfo2.getLong(7 * Long.BYTES); // uordblks
            return large + small;
        }
    }
}
