package cs336.notebook;

import cs336.bench.ChildJvm;
import cs336.bench.WholeFile;
import cs336.kernels.runtime.KernelCell;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * A runner that executes notebooks without Jupyter, each in a separate process. The process of the next notebook starts
 * while the previous notebooks run, so that it is ready when they end.
 *
 * <p>Writes an executed copy and an HTML page of each notebook, also if a cell fails, exceeds the time limit or ends
 * the process. Cells tagged {@code raises-exception} may fail.
 */
public final class NotebookRunner {
    /** The tag of cells that run a {@link KernelCell}. They depend only on cells with the tag of exercises. */
    static final String KERNEL_TAG = "kernel";

    private static final Duration MAX_TIME_LIMIT = Duration.ofDays(7);

    private final Imports imports;
    private final Duration timeLimit;
    private final int jobs;
    private final Path output;
    private final PrintWriter progress;
    private Path storedKernels;
    private boolean keepsGoing;
    private ChildJvm next;
    private int unstarted;
    private boolean stopped;

    /**
     * Creates a runner.
     *
     * @param imports the imports in effect in every cell
     * @param timeLimit the time limit of each cell, above 0 and at most a week; a cell that exceeds it is interrupted
     *     and fails
     * @param jobs the number of notebooks that run at the same time, at least 1
     * @param output the output folder, created if necessary
     * @param progress receives one line per notebook
     * @throws IllegalArgumentException if {@code timeLimit} or {@code jobs} is out of range
     */
    public NotebookRunner(Imports imports, Duration timeLimit, int jobs, Path output, PrintWriter progress) {
        if (timeLimit.isNegative() || timeLimit.isZero() || timeLimit.compareTo(MAX_TIME_LIMIT) > 0) {
            throw new IllegalArgumentException("timeLimit must be above 0 and at most a week, not " + timeLimit);
        }
        if (jobs < 1) {
            throw new IllegalArgumentException("jobs must be at least 1, not " + jobs);
        }
        this.imports = imports;
        this.timeLimit = timeLimit;
        this.jobs = jobs;
        this.output = output;
        this.progress = progress;
    }

    /**
     * Restricts the runs to the cells that run kernels and those they depend on, and stores the kernels' results.
     *
     * @param measurements folder of the measurements of all machines; null to run all cells and store nothing
     */
    NotebookRunner storingKernels(Path measurements) {
        storedKernels = measurements;
        return this;
    }

    /** Sets whether the cells and notebooks after a failed cell are executed, too; by default they are not. */
    NotebookRunner keepGoing(boolean afterFailures) {
        keepsGoing = afterFailures;
        return this;
    }

    /**
     * Executes notebook files in the given order.
     *
     * @throws NotebookFailure at the first cell that fails; notebooks that run at that time end, and their failures are
     *     suppressed exceptions; the notebooks after them are not executed, unless {@link #keepGoing}
     * @throws IOException if a file is not a notebook, or cannot be read or written
     */
    public void run(List<Path> files) throws IOException, NotebookFailure, InterruptedException {
        List<Notebook> notebooks = new ArrayList<>();
        for (Path file : files) {
            Notebook notebook = Notebook.read(file);
            if (storedKernels == null) {
                notebooks.add(notebook);
            } else if (notebook.cells().stream().anyMatch(cell -> cell.hasTag(KERNEL_TAG))) {
                notebooks.add(notebook.only(cell -> cell.hasTag(KERNEL_TAG) || cell.hasTag(Exercises.TAG)));
            }
        }
        Files.createDirectories(output);
        unstarted = notebooks.size();
        stopped = false;
        ExecutorService workers = Executors.newFixedThreadPool(jobs, NotebookRunner::daemon);
        try {
            List<Future<?>> runs = new ArrayList<>();
            for (Notebook notebook : notebooks) {
                runs.add(workers.submit(() -> {
                    runUnlessStopped(notebook);
                    return null;
                }));
            }
            await(runs);
        } finally {
            workers.shutdownNow();
            closeNext();
        }
    }

    private static void await(List<Future<?>> runs) throws IOException, NotebookFailure, InterruptedException {
        Throwable first = null;
        for (Future<?> run : runs) {
            try {
                run.get();
            } catch (ExecutionException e) {
                if (first == null) {
                    first = e.getCause();
                } else {
                    first.addSuppressed(e.getCause());
                }
            }
        }
        if (first instanceof NotebookFailure failure) {
            throw failure;
        }
        if (first instanceof IOException failure) {
            throw failure;
        }
        if (first != null) {
            throw new IllegalStateException(first);
        }
    }

    private void runUnlessStopped(Notebook notebook) throws IOException, NotebookFailure, InterruptedException {
        try (ChildJvm process = takeProcess()) {
            if (process != null) {
                run(notebook, process);
            }
        } catch (Throwable t) {
            synchronized (this) {
                stopped |= !(keepsGoing && t instanceof NotebookFailure);
            }
            throw t;
        }
    }

    private void run(Notebook notebook, ChildJvm process) throws IOException, NotebookFailure, InterruptedException {
        if (jobs == 1) {
            print(notebook.name() + " … ");
        }
        String prefix = jobs == 1 ? "" : notebook.name() + " … ";
        long start = System.nanoTime();
        try {
            int cells = execute(notebook, process);
            print(String.format(Locale.ROOT, "%s%d cells, %.1f s%n", prefix, cells, (System.nanoTime() - start) / 1e9));
        } catch (NotebookFailure failure) {
            print(prefix + "failed" + System.lineSeparator());
            throw failure;
        }
    }

    private int execute(Notebook notebook, ChildJvm process) throws IOException, NotebookFailure, InterruptedException {
        // First, so that an error in a formula is reported before any cell runs.
        var page = new NotebookPage(notebook);
        try {
            return new NotebookExecution(notebook, process, timeLimit, keepsGoing).run();
        } finally {
            notebook.write(output.resolve(notebook.name() + ".ipynb"));
            WholeFile.write(output.resolve(notebook.name() + ".html"), page.html());
        }
    }

    private synchronized void print(String text) {
        progress.print(text);
        progress.flush();
    }

    /** Returns a process and starts the next one; returns null after a failure. */
    private synchronized ChildJvm takeProcess() throws IOException {
        if (stopped) {
            return null;
        }
        ChildJvm taken = next == null ? start() : next;
        next = null;
        unstarted--;
        next = unstarted > 0 ? start() : null;
        return taken;
    }

    private ChildJvm start() throws IOException {
        ChildJvm process = ChildJvm.start(NotebookWorker.class, environment(), line -> {});
        process.tell(imports.name());
        return process;
    }

    private Map<String, String> environment() {
        return storedKernels == null
                ? Map.of()
                : Map.of(KernelCell.STORE, storedKernels.toAbsolutePath().toString());
    }

    private synchronized void closeNext() {
        if (next != null) {
            next.close();
            next = null;
        }
    }

    private static Thread daemon(Runnable task) {
        var thread = new Thread(task, "notebook");
        thread.setDaemon(true);
        return thread;
    }
}
