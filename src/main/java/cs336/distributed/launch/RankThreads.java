package cs336.distributed.launch;

import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.CollectiveFailure;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.World;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Ranks that are threads of this process, for learning and tests. Unlike the programs of {@link Launcher} they may be
 * lambdas of a notebook cell. They share the interpreter, the random number generators and the cores of this process,
 * and communicate through Gloo on the CPU.
 *
 * <pre>{@code
 * List<Double> sums = RankThreads.run(2, group -> {
 *     Tensor mine = torch.full(new long[] {1}, new Scalar(group.rank() + 1.0));
 *     group.allReduce(mine, Reduction.SUM);
 *     return mine.item_double();          // 3 on both ranks
 * });
 * }</pre>
 */
public final class RankThreads {
    private static final int MOST_RANKS = 16;
    private static final int ANY_PORT = 29_500; // not used, since the rendezvous is in a file
    private static final Duration TIMEOUT = Duration.ofSeconds(20);
    private static final long POLL_INTERVAL_MS = 5;
    private static final Duration JOIN_TIMEOUT = Duration.ofSeconds(1);

    private RankThreads() {}

    /** The code of a rank. */
    @FunctionalInterface
    public interface RankCode<T> {
        /**
         * Runs on the thread of one rank.
         *
         * @param group the group of all ranks, which is closed afterwards
         */
        T run(ProcessGroup group) throws Exception;
    }

    /**
     * Runs the code on all ranks. If one fails, the others are interrupted; those that wait for a collective end at its
     * timeout of 20 s.
     *
     * @param ranks number of ranks, from 1 to 16
     * @return the value of each rank, in the order of ranks
     * @throws IllegalStateException if a rank failed; its cause is the exception of the rank that failed first
     * @throws IllegalArgumentException if the number of ranks is out of range
     */
    public static <T> List<T> run(int ranks, RankCode<T> code) throws InterruptedException {
        if (ranks < 1 || ranks > MOST_RANKS) {
            throw new IllegalArgumentException("ranks must be from 1 to " + MOST_RANKS + ", not " + ranks);
        }
        List<Thread> threads = new ArrayList<>();
        try (var folder = new PrivateFolder()) {
            List<FutureTask<T>> tasks = new ArrayList<>();
            var failure = new CompletableFuture<Void>();
            for (int rank = 0; rank < ranks; rank++) {
                World world = World.local(rank, ranks, ANY_PORT);
                var task = new FutureTask<T>(() -> runRank(world, folder, code, failure));
                var thread = new Thread(task, "rank " + rank);
                thread.setDaemon(true);
                thread.start();
                threads.add(thread);
                tasks.add(task);
            }
            return values(tasks, failure);
        } catch (IOException e) {
            throw new UncheckedIOException("the folder for the rendezvous could not be created", e);
        } finally {
            end(threads);
        }
    }

    private static <T> T runRank(World world, PrivateFolder folder, RankCode<T> code, CompletableFuture<Void> failure)
            throws Exception {
        ProcessGroup group = null;
        try {
            group = ProcessGroup.join(world, CollectiveBackend.GLOO, TIMEOUT, folder.file("store"));
            T value = code.run(group);
            group.close();
            return value;
        } catch (Throwable e) {
            if (group != null) {
                group.abandon();
            }
            if (!(e instanceof CollectiveFailure)) {
                failure.completeExceptionally(
                        new IllegalStateException("rank " + world.rank() + ": " + e.getMessage(), e));
            }
            throw e;
        }
    }

    /** Returns the values of the ranks. A failure ends the wait for the others. */
    private static <T> List<T> values(List<FutureTask<T>> tasks, CompletableFuture<Void> failure)
            throws InterruptedException {
        Throwable failed = null;
        List<T> values = new ArrayList<>();
        for (FutureTask<T> task : tasks) {
            while (!task.isDone()) {
                throwFailure(failure);
            }
            try {
                values.add(task.get());
            } catch (ExecutionException e) {
                throwFailure(failure);
                failed = failed == null ? e.getCause() : failed;
            }
        }
        if (failed != null) {
            throw new IllegalStateException(failed.getMessage(), failed);
        }
        return values;
    }

    private static void throwFailure(CompletableFuture<Void> failure) throws InterruptedException {
        try {
            failure.get(POLL_INTERVAL_MS, TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            // No rank has failed so far.
        } catch (ExecutionException e) {
            throw (IllegalStateException) e.getCause();
        }
    }

    /** Interrupts ranks that still run, so that they do not interfere with a later run. */
    private static void end(List<Thread> threads) throws InterruptedException {
        threads.forEach(Thread::interrupt);
        long deadline = System.nanoTime() + JOIN_TIMEOUT.toNanos();
        for (Thread thread : threads) {
            thread.join(Math.max(1, TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime())));
        }
    }
}
