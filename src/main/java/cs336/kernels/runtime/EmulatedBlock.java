package cs336.kernels.runtime;

import cs336.bench.ArgumentCheck;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.function.IntConsumer;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.Table;

/**
 * An emulator of one block of CUDA threads, to step through the indexing of a kernel without a GPU. The kernel is Java
 * code for one thread, with arrays in global and shared memory and with barriers. The emulator counts the accesses of
 * each thread and rejects kernels whose result depends on the order of the threads.
 *
 * <pre>{@code
 * var block = new EmulatedBlock(8);
 * var x = block.global("x", xs);
 * var partial = block.shared("partial", 8);
 * block.run(thread -> {
 *     partial.set(thread, x.get(thread));
 *     block.syncThreads();
 *     …
 * });
 * block.accesses();
 * }</pre>
 *
 * <p>Between two barriers the threads run one after the other, thread 0 first.
 */
public final class EmulatedBlock {
    private static final int MAX_THREADS = 1024;
    private static final int SECTOR_BYTES = 32;
    private static final int NONE = -1;
    private static final int SEVERAL = -2;

    private final int threads;
    private final List<EmulatedArray> arrays = new ArrayList<>();
    private EmulatedThread current;
    private int phase;

    /**
     * Creates a block.
     *
     * @param threads number of threads, 1 to 1,024
     */
    public EmulatedBlock(int threads) {
        this.threads = ArgumentCheck.atLeast("threads", 1, threads);
        if (threads > MAX_THREADS) {
            throw new IllegalArgumentException("threads must be at most " + MAX_THREADS + ", not " + threads);
        }
    }

    /** An array in global or shared memory. Only the threads of the block may access it, during {@link #run}. */
    public final class EmulatedArray {
        private final String name;
        private final double[] values;
        private final boolean global;
        private final int[] writer;
        private final int[] reader;
        private final int[] accessPhase;
        private final List<List<Integer>> read = lists();
        private final List<List<Integer>> written = lists();

        private EmulatedArray(String name, double[] values, boolean global) {
            this.name = name;
            this.values = values;
            this.global = global;
            writer = new int[values.length];
            reader = new int[values.length];
            accessPhase = new int[values.length];
        }

        private List<List<Integer>> lists() {
            List<List<Integer>> lists = new ArrayList<>();
            for (int t = 0; t < threads; t++) {
                lists.add(new ArrayList<>());
            }
            return lists;
        }

        /**
         * Reads an element.
         *
         * @throws IllegalStateException if the index is out of range, or another thread has written the element since
         *     the last barrier
         */
        public double get(int index) {
            int thread = access(index, "reads");
            requireNoRace(writer[index], thread, "reads", index, "writes");
            reader[index] = reader[index] == NONE || reader[index] == thread ? thread : SEVERAL;
            read.get(thread).add(index);
            return values[index];
        }

        /**
         * Writes an element.
         *
         * @throws IllegalStateException if the index is out of range, or another thread has read or written the element
         *     since the last barrier
         */
        public void set(int index, double value) {
            int thread = access(index, "writes");
            requireNoRace(writer[index], thread, "writes", index, "writes");
            requireNoRace(reader[index], thread, "writes", index, "reads");
            writer[index] = thread;
            written.get(thread).add(index);
            values[index] = value;
        }

        /** Returns a copy of the values. */
        public double[] values() {
            return values.clone();
        }

        private int access(int index, String how) {
            if (current == null) {
                throw new IllegalStateException(name + " may only be accessed in run");
            }
            if (index < 0 || index >= values.length) {
                throw new IllegalStateException("thread " + current.number + " " + how + " " + name + "[" + index
                        + "], but " + name + " has " + values.length + " elements");
            }
            if (accessPhase[index] != phase) {
                accessPhase[index] = phase;
                writer[index] = NONE;
                reader[index] = NONE;
            }
            return current.number;
        }

        private void requireNoRace(int other, int thread, String how, int index, String otherHow) {
            if (other != NONE && other != thread) {
                throw new IllegalStateException("race: thread " + thread + " " + how + " " + name + "[" + index
                        + "], which " + (other == SEVERAL ? "another thread" : "thread " + other) + " " + otherHow
                        + " without a barrier between them");
            }
        }
    }

    /** Returns an array in global memory with a copy of these values. */
    public EmulatedArray global(String name, double... values) {
        return add(new EmulatedArray(name, values.clone(), true));
    }

    /** Returns an array in shared memory, initially zero. */
    public EmulatedArray shared(String name, int length) {
        return add(new EmulatedArray(name, new double[length], false));
    }

    private EmulatedArray add(EmulatedArray array) {
        arrays.add(array);
        return array;
    }

    /** A Java thread that waits until the emulator lets it run to its next barrier. */
    private static final class EmulatedThread {
        private final int number;
        private final Semaphore go = new Semaphore(0);
        private boolean ended;
        private boolean abandoned; // its block has failed

        EmulatedThread(int number) {
            this.number = number;
        }

        /** Waits for its turn. */
        void await() {
            go.acquireUninterruptibly();
            if (abandoned) {
                throw new AbandonedException();
            }
        }
    }

    private final Semaphore back = new Semaphore(0);
    private Throwable error;

    /**
     * Runs all threads of the block to their end. Accesses are added to those of earlier runs.
     *
     * @param kernel the code of one thread; it receives {@code threadIdx.x}
     * @throws IllegalStateException if threads race for an element, or only some of them reach a barrier
     */
    public void run(IntConsumer kernel) {
        List<EmulatedThread> running =
                IntStream.range(0, threads).mapToObj(EmulatedThread::new).toList();
        error = null;
        for (EmulatedThread thread : running) {
            var java = new Thread(() -> live(thread, kernel), "threadIdx.x " + thread.number);
            java.setDaemon(true);
            java.start();
        }
        try {
            int ended = 0;
            while (ended == 0) {
                phase++;
                for (EmulatedThread thread : running) {
                    resume(thread);
                    ended += thread.ended ? 1 : 0;
                }
            }
            if (ended < threads) {
                throw new IllegalStateException(ended + " of " + threads
                        + " threads end without a barrier at which the others wait: all must reach the same barriers");
            }
        } finally {
            current = null;
            for (EmulatedThread thread : running) {
                thread.abandoned = true;
                thread.go.release();
            }
        }
    }

    private void resume(EmulatedThread thread) {
        current = thread;
        thread.go.release();
        back.acquireUninterruptibly();
        if (error instanceof RuntimeException e) {
            throw e;
        }
        if (error instanceof Error e) {
            throw e;
        }
    }

    private void live(EmulatedThread thread, IntConsumer kernel) {
        try {
            thread.await();
            kernel.accept(thread.number);
        } catch (AbandonedException e) {
            return;
        } catch (RuntimeException | Error e) {
            error = e;
        }
        thread.ended = true;
        back.release();
    }

    /** The exception that ends a thread whose block has failed. */
    private static final class AbandonedException extends RuntimeException {
        private static final long serialVersionUID = 1L;
    }

    /**
     * Waits until all threads of the block have reached this barrier, like {@code __syncthreads()}; called in
     * {@link #run}.
     */
    public void syncThreads() {
        EmulatedThread thread = current;
        if (thread == null) {
            throw new IllegalStateException("syncThreads may only be called in run");
        }
        back.release();
        thread.await();
    }

    /** Returns the numbers of elements that each thread has read and written, for each array in global memory. */
    public Table accesses() {
        var thread = IntColumn.create("thread", IntStream.range(0, threads).toArray());
        Table table = Table.create("accesses to global memory", thread);
        for (EmulatedArray array : arrays) {
            if (array.global) {
                addCounts(table, "reads of " + array.name, array.read);
                addCounts(table, "writes of " + array.name, array.written);
            }
        }
        return table;
    }

    private static void addCounts(Table table, String name, List<List<Integer>> accesses) {
        if (accesses.stream().anyMatch(ofThread -> !ofThread.isEmpty())) {
            table.addColumns(IntColumn.create(
                    name, accesses.stream().mapToInt(List::size).toArray()));
        }
    }

    /**
     * Returns a table of the element that each thread reads in its first, second … read of an array, and of the number
     * of 32-byte sectors that these elements touch, if an element has 4 bytes and element 0 begins a sector.
     *
     * @param steps largest number of reads, the rows of the table
     */
    public Table reads(EmulatedArray array, int steps) {
        int most = array.read.stream().mapToInt(List::size).max().orElse(0);
        int rows = Math.min(steps, most);
        Table table = Table.create(
                "elements of " + array.name + " that each thread reads",
                IntColumn.create("read", IntStream.range(0, rows).toArray()));
        List<Set<Integer>> sectors = Stream.generate(() -> (Set<Integer>) new HashSet<Integer>())
                .limit(rows)
                .toList();
        for (int t = 0; t < threads; t++) {
            var elements = IntColumn.create("thread " + t);
            for (int i = 0; i < rows; i++) {
                if (i < array.read.get(t).size()) {
                    int element = array.read.get(t).get(i);
                    elements.append(element);
                    sectors.get(i).add(element * Float.BYTES / SECTOR_BYTES);
                } else {
                    elements.appendMissing();
                }
            }
            table.addColumns(elements);
        }
        return table.addColumns(
                IntColumn.create("sectors", sectors.stream().mapToInt(Set::size).toArray()));
    }
}
