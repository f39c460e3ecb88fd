package cs336.distributed.training;

import cs336.bench.WholeFile;
import cs336.distributed.collectives.ProcessGroup;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Reading and writing of files by the ranks of a group. A failure on one rank becomes an exception on all. */
public final class FileWork {
    private static final long POLL_MS = 200;

    private FileWork() {}

    /**
     * Runs an action on every rank. All ranks call this method.
     *
     * @throws IOException on every rank, if the action throws one on any
     * @throws IllegalArgumentException on every rank, if the action throws one on any
     * @throws IllegalStateException on every rank, if the action throws another {@link RuntimeException} on any
     */
    public static void onAllRanks(ProcessGroup group, WholeFile.FileAction action) throws IOException {
        for (List<String> failure : group.allGather(failure(action))) {
            rethrow(failure);
        }
    }

    /**
     * Runs an action on rank 0 while the other ranks wait, longer than the timeout of a collective if necessary: a
     * large checkpoint takes minutes. All ranks call this method. The action runs on another thread and must not use
     * the group.
     *
     * @throws IOException on every rank, if the action throws one
     * @throws IllegalArgumentException on every rank, if the action throws one
     * @throws IllegalStateException on every rank, if the action throws another {@link RuntimeException}
     */
    public static void onRankZero(ProcessGroup group, WholeFile.FileAction action) throws IOException {
        var work = new FutureTask<>(() -> failure(action));
        if (group.rank() == 0) {
            var thread = new Thread(work, "files of rank 0");
            thread.setDaemon(true);
            thread.start();
        }
        ArrayList<String> failure;
        do { // a message now and then, so that the other ranks notice if rank 0 dies
            failure = group.allGather(group.rank() == 0 ? poll(work) : null).get(0);
        } while (failure == null);
        rethrow(failure);
    }

    /** Returns the result of the work; null if it has not ended after a short time. */
    private static ArrayList<String> poll(FutureTask<ArrayList<String>> work) throws IOException {
        try {
            return work.get(POLL_MS, TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            return null;
        } catch (ExecutionException e) {
            throw new IllegalStateException("files could not be read or written", e.getCause());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted while files were read or written", e);
        }
    }

    /** Returns the kind and the text of the exception that an action throws; an empty list if it throws none. */
    private static ArrayList<String> failure(WholeFile.FileAction action) {
        try {
            action.run();
            return new ArrayList<>();
        } catch (IOException e) {
            return new ArrayList<>(List.of("file", WholeFile.reason(e)));
        } catch (IllegalArgumentException e) {
            return new ArrayList<>(List.of("argument", String.valueOf(e.getMessage())));
        } catch (RuntimeException e) { // the other ranks wait for this one
            return new ArrayList<>(List.of("other", e.toString()));
        }
    }

    private static void rethrow(List<String> failure) throws IOException {
        if (failure.isEmpty()) {
            return;
        }
        if (failure.get(0).equals("argument")) {
            throw new IllegalArgumentException(failure.get(1));
        }
        if (failure.get(0).equals("other")) {
            throw new IllegalStateException(failure.get(1));
        }
        throw new IOException(failure.get(1));
    }
}
