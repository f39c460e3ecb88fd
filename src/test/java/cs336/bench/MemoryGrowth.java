package cs336.bench;

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
import java.util.Optional;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Assertions;

/**
 * A test for memory leaks in repeated work. The work runs in a child process, where no other test allocates. The child
 * reports its memory use after each of several blocks of steps, and the median growth of a block must be near zero.
 *
 * <p>The median is used because a leak adds memory in every block, whereas a one-time allocation, such as a workspace
 * or compiled code, changes only one.
 */
public final class MemoryGrowth {
    private static final Duration TIME_LIMIT = Duration.ofMinutes(10); // long enough to unpack native libraries
    private static final Device CPU = Device.cpu();
    private static final int WARM_UP = 2; // blocks
    private static final int BLOCKS = 8;
    private static final int LONGER = 4;
    private static final long RESIDENT_LIMIT = 16 << 20; // for all blocks, because malloc and mmap keep freed pages
    private static final int SAMPLES = 5;
    private static final int PAUSE_MS = 20;

    /**
     * A Java heap of constant size whose pages are resident from the start, so that any growth of the process is native
     * memory; and one thread per operation, because the work is small.
     */
    private static final Map<String, String> ENVIRONMENT = Map.of(
            "JDK_JAVA_OPTIONS", "-XX:+UseSerialGC -Xms128m -Xmx128m -XX:+AlwaysPreTouch",
            "OMP_NUM_THREADS", "1",
            "OPENBLAS_NUM_THREADS", "1");

    /** Work that consists of equal steps. */
    public interface Work {
        /** Runs one step. */
        void step() throws Exception;
    }

    private MemoryGrowth() {}

    /**
     * Runs 2 blocks of warm-up steps and 8 measured blocks, and fails if memory use grows from block to block. If it
     * does, it first measures longer blocks: on a busy machine the JVM may still compile code in short ones.
     *
     * @param work a class with a constructor without arguments
     * @param steps number of steps in a block
     * @param bytesPerStep allowed growth per step, for noise; it should be far below the smallest leak
     */
    public static void assertFlat(Class<? extends Work> work, int steps, double bytesPerStep)
            throws IOException, InterruptedException {
        if (growth(work, steps, bytesPerStep).isPresent()) {
            growth(work, LONGER * steps, bytesPerStep).ifPresent(Assertions::fail);
        }
    }

    /** Returns a description of the growth, if there is any. */
    private static Optional<String> growth(Class<? extends Work> work, int steps, double bytesPerStep)
            throws IOException, InterruptedException {
        List<long[]> blocks = answers(work, steps, BLOCKS);
        long[] inUse = blocks.stream().mapToLong(bytes -> bytes[0]).toArray();
        long[] resident = blocks.stream().mapToLong(bytes -> bytes[1]).toArray();
        double perStep = Math.min(typicalGrowth(inUse), slope(inUse)) / steps; // a leak shows in both, noise rarely
        if (perStep > bytesPerStep) {
            return Optional.of("a step leaks %.0f bytes, more than %.0f. Bytes in use after each %d steps: %s"
                    .formatted(perStep, bytesPerStep, steps, Arrays.toString(inUse)));
        }
        return slope(resident) * BLOCKS > RESIDENT_LIMIT
                ? Optional.of("the process grows. Resident bytes after each %d steps: %s"
                        .formatted(steps, Arrays.toString(resident)))
                : Optional.empty();
    }

    /** Returns the number of bytes by which the resident set peaks during one step, after a warm-up step. */
    public static long peakOfStep(Class<? extends Work> work) throws IOException, InterruptedException {
        return answers(work, 0, 1).get(0)[0];
    }

    private static List<long[]> answers(Class<? extends Work> work, int steps, int number)
            throws IOException, InterruptedException {
        try (var process = ChildJvm.start(MemoryGrowth.class, ENVIRONMENT, line -> {})) {
            process.tell(work.getName());
            process.tell(String.valueOf(steps));
            var answers = new ArrayList<long[]>();
            while (answers.size() < number) {
                String answer = process.answer(TIME_LIMIT);
                if (answer == null) {
                    fail(String.join("\n", process.end().lastLines()));
                }
                answers.add(Arrays.stream(answer.split(" "))
                        .mapToLong(Long::parseLong)
                        .toArray());
            }
            return answers;
        }
    }

    /** Returns the median difference between neighbouring values. */
    static double typicalGrowth(long... values) {
        return Summary.of(IntStream.range(1, values.length)
                        .mapToDouble(i -> values[i] - values[i - 1])
                        .toArray())
                .median();
    }

    /** Returns the Theil–Sen slope, the median slope of all pairs, which is robust for values that go up and down. */
    public static double slope(long... values) {
        return Summary.of(IntStream.range(0, values.length)
                        .boxed()
                        .flatMapToDouble(i -> IntStream.range(i + 1, values.length)
                                .mapToDouble(j -> (double) (values[j] - values[i]) / (j - i)))
                        .toArray())
                .median();
    }

    /**
     * Runs in the child process. It reads the class of the work and the steps in a block, or 0 for the peak of a step.
     */
    public static void main(String[] args) throws Exception {
        var parent = new ChildJvm.Child();
        Constructor<?> constructor = Class.forName(parent.next()).getDeclaredConstructor();
        constructor.setAccessible(true);
        int steps = Integer.parseInt(parent.next());
        var work = (Work) constructor.newInstance();
        if (steps == 0) {
            parent.answer(String.valueOf(peakOfStep(work)));
        }
        for (int block = 0; steps > 0 && block < WARM_UP + BLOCKS; block++) {
            for (int step = 0; step < steps; step++) {
                work.step();
            }
            String bytes = inUse() + " " + MemoryStats.current(CPU);
            if (block >= WARM_UP) {
                parent.answer(bytes);
            }
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
     * Returns the bytes in use in the C heap and the Java heap, the minimum of several samples. Some memory is freed
     * only between samples: that of other threads, such as the compiler's, and objects that need a second collection.
     */
    public static long inUse() throws InterruptedException {
        long least = Long.MAX_VALUE;
        for (int sample = 0; sample < SAMPLES; sample++) {
            System.gc();
            Thread.sleep(PAUSE_MS);
            Runtime java = Runtime.getRuntime();
            least = Math.min(least, cHeapBytes() + java.totalMemory() - java.freeMemory());
        }
        return least;
    }

    private static long cHeapBytes() {
        try (var mallinfo2 = new com.sun.jna.Memory(80)) { // a struct of ten numbers, see mallinfo(3)
            NativeLibrary.getProcess().getFunction("mallinfo2").invokeVoid(new Object[] {mallinfo2});
            long large = mallinfo2.getLong(4 * Long.BYTES); // hblkhd
            long small = mallinfo2.getLong(7 * Long.BYTES); // uordblks
            return large + small;
        }
    }
}
