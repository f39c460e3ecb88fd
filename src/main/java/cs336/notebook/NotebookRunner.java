package cs336.notebook;

import com.google.gson.JsonArray;
import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A runner that executes notebooks without Jupyter, one after the other in this virtual machine, each with a new
 * evaluator.
 *
 * <p>Writes an executed copy and an HTML page of each notebook, also if it fails. Cells tagged {@code raises-exception}
 * may fail.
 */
public final class NotebookRunner {
    private final Imports imports;
    private final Duration timeLimit;
    private final Path output;
    private final PrintWriter progress;

    /**
     * Creates a runner.
     *
     * @param imports the imports in effect in every cell
     * @param timeLimit the time limit of each cell; a cell that exceeds it is interrupted and fails
     * @param output the output folder, created if necessary
     * @param progress receives one line per notebook
     */
    public NotebookRunner(Imports imports, Duration timeLimit, Path output, PrintWriter progress) {
        if (timeLimit.isNegative() || timeLimit.isZero()) {
            throw new IllegalArgumentException("timeLimit must be above 0, not " + timeLimit);
        }
        this.imports = imports;
        this.timeLimit = timeLimit;
        this.output = output;
        this.progress = progress;
    }

    /**
     * Executes notebook files in the given order.
     *
     * @throws NotebookFailure at the first cell that fails; the notebooks after it are not executed
     * @throws IOException if a file is not a notebook, or cannot be read or written
     */
    public void run(List<Path> files) throws IOException, NotebookFailure {
        Files.createDirectories(output);
        for (Path file : files) {
            Notebook notebook = Notebook.read(file);
            progress.print(notebook.name() + " … ");
            progress.flush();
            long start = System.nanoTime();
            // First, so that an error in a formula is reported before any cell runs.
            var page = new NotebookPage(notebook);
            try {
                int cells = execute(notebook);
                progress.printf(Locale.ROOT, "%d cells, %.1f s%n", cells, (System.nanoTime() - start) / 1e9);
                progress.flush();
            } catch (NotebookFailure failure) {
                progress.println("failed");
                progress.flush();
                throw failure;
            } finally {
                notebook.write(output.resolve(notebook.name() + ".ipynb"));
                Files.writeString(output.resolve(notebook.name() + ".html"), page.html());
            }
        }
    }

    private int execute(Notebook notebook) throws NotebookFailure {
        notebook.cells().stream().filter(Notebook.Cell::isCode).forEach(cell -> cell.setResult(null, new JsonArray()));
        var outputs = new RecordedOutputs();
        var kernel = new JavaKernel(imports, outputs);
        ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(NotebookRunner::daemon);
        int count = 0;
        try {
            for (Notebook.Cell cell : notebook.cells()) {
                if (cell.isCode() && !cell.source().isBlank()) {
                    execute(notebook, cell, ++count, kernel, outputs, timer);
                }
            }
            return count;
        } finally {
            timer.shutdownNow();
            kernel.close();
        }
    }

    private void execute(
            Notebook notebook,
            Notebook.Cell cell,
            int count,
            JavaKernel kernel,
            RecordedOutputs outputs,
            ScheduledExecutorService timer)
            throws NotebookFailure {
        var timedOut = new AtomicBoolean();
        // Repeated, because a cell can catch the first interrupt.
        ScheduledFuture<?> alarm = timer.scheduleWithFixedDelay(
                () -> {
                    timedOut.set(true);
                    kernel.interrupt();
                },
                timeLimit.toMillis(),
                1000,
                TimeUnit.MILLISECONDS);
        try {
            DisplayData result = kernel.eval(cell.source(), count);
            if (result != null) {
                outputs.result(result, count);
            }
            if (timedOut.get()) {
                throw timeout(notebook, count, 0, List.of());
            }
        } catch (CellException error) {
            outputs.error(error);
            if (timedOut.get()) {
                throw timeout(notebook, count, error.line(), error.report());
            }
            if (!cell.mayFail()) {
                String reason = error.report().get(0).replaceFirst("^cell \\[\\d+], line \\d+: ", "");
                throw new NotebookFailure(
                        notebook.name(), "cell [" + count + "]", error.line(), reason, error.report());
            }
        } finally {
            alarm.cancel(false);
            cell.setResult(count, outputs.take());
        }
    }

    private NotebookFailure timeout(Notebook notebook, int count, int line, List<String> report) {
        return new NotebookFailure(
                notebook.name(), "cell [" + count + "]", line, "took longer than " + seconds(timeLimit), report);
    }

    private static String seconds(Duration duration) {
        return (duration.toMillis() % 1000 == 0 ? String.valueOf(duration.toSeconds()) : duration.toMillis() / 1e3 + "")
                + " s";
    }

    private static Thread daemon(Runnable task) {
        var thread = new Thread(task, "cell time limit");
        thread.setDaemon(true);
        return thread;
    }
}
