package cs336.notebook;

import com.google.gson.JsonArray;
import cs336.bench.ChildJvm;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The execution of one notebook in a separate process. It stores the outputs in the notebook as they arrive, so that
 * they are complete up to the last event however the process ends.
 */
final class NotebookExecution {
    /** Time that a process may take to start, and to end after the last cell. */
    private static final Duration PROCESS_LIMIT = Duration.ofMinutes(3);

    private static final Duration EXIT_LIMIT = Duration.ofSeconds(5);
    private static final int SIGNAL = 128;
    private static final int MOST_OUTPUT_LINES = 15;
    private static final Pattern CRASH = Pattern.compile("#\\s+(SIG[A-Z]+) ");

    private final Notebook notebook;
    private final List<Notebook.Cell> cells;
    private final ChildJvm process;
    private final Duration timeLimit;
    private final boolean keepsGoing;
    private final RecordedOutputs outputs = new RecordedOutputs();
    private final List<NotebookFailure> failures = new ArrayList<>();
    private int running = -1;
    private int done;
    private boolean finished;

    /**
     * Prepares an execution.
     *
     * @param process a process of {@link NotebookWorker} that has not received a request
     * @param keepsGoing whether the cells after a failed one are executed, too
     */
    NotebookExecution(Notebook notebook, ChildJvm process, Duration timeLimit, boolean keepsGoing) {
        this.keepsGoing = keepsGoing;
        this.notebook = notebook;
        this.process = process;
        this.timeLimit = timeLimit;
        notebook.cells().stream().filter(Notebook.Cell::isCode).forEach(cell -> cell.setResult(null, new JsonArray()));
        cells = notebook.cells().stream()
                .filter(cell -> cell.isCode() && !cell.source().isBlank())
                .toList();
    }

    /**
     * Executes the cells in order and returns their number.
     *
     * @throws NotebookFailure at the first cell that fails or ends the process; if the execution goes on after
     *     failures, at the end for the first cell that failed, with the others as suppressed exceptions
     */
    int run() throws NotebookFailure, InterruptedException {
        List<NotebookEvent.CodeCell> sources = cells.stream()
                .map(cell -> new NotebookEvent.CodeCell(cell.source(), cell.mayFail()))
                .toList();
        process.tell(new NotebookEvent.Request(sources, timeLimit.toMillis(), keepsGoing).line());
        long limit = System.nanoTime() + PROCESS_LIMIT.toNanos();
        while (!finished) {
            String line = process.answer(Duration.ofNanos(Math.max(1, limit - System.nanoTime())));
            if (line == null) {
                failures.add(processEnded());
                throw firstFailure();
            }
            NotebookEvent event = NotebookEvent.parse(line);
            switch (event.kind()) {
                case STARTED -> {
                    running = event.cell();
                    limit = after(timeLimit.plus(NotebookWorker.GRACE));
                }
                case OUTPUT -> outputs.add(event.output(), event.displayId());
                case UPDATED -> outputs.update(event.output(), event.displayId());
                case ENDED -> {
                    store();
                    limit = after(PROCESS_LIMIT);
                    if (event.failure() != null) {
                        failures.add(failure(running, event.failure()));
                    }
                    done = running + 1;
                    running = -1;
                }
                case FINISHED -> finished = true;
            }
        }
        process.answer(EXIT_LIMIT); // the exit runs shutdown hooks of cells
        if (!failures.isEmpty()) {
            throw firstFailure();
        }
        return cells.size();
    }

    /** Returns the first failure, with the others as suppressed exceptions. */
    private NotebookFailure firstFailure() {
        NotebookFailure first = failures.get(0);
        failures.stream().skip(1).forEach(first::addSuppressed);
        return first;
    }

    private static long after(Duration duration) {
        return System.nanoTime() + duration.toNanos();
    }

    private void store() {
        cells.get(running).setResult(running + 1, outputs.take());
    }

    private NotebookFailure processEnded() throws InterruptedException {
        ChildJvm.Ending ending = process.end();
        int code = ending.exitCode();
        String reason;
        if (ending.timedOut()) {
            reason = running < 0
                    ? "the process does not respond"
                    : "took longer than " + NotebookWorker.seconds(timeLimit.toMillis())
                            + " and could not be interrupted";
        } else if (crash(ending.lastLines()) != null) {
            reason = "the process crashed with " + crash(ending.lastLines());
        } else if (code > SIGNAL) {
            reason = "the process was ended by signal " + (code - SIGNAL);
        } else {
            reason = "the process ended with exit code " + code;
        }
        List<String> report = new ArrayList<>(List.of(reason));
        List<String> lastLines =
                ending.lastLines().stream().filter(line -> !line.isBlank()).toList();
        report.addAll(lastLines.subList(Math.max(0, lastLines.size() - MOST_OUTPUT_LINES), lastLines.size()));
        report = LimitedOutputs.shortened(report);
        if (running >= 0) {
            outputs.add(LimitedOutputs.errorOutput("ProcessEnded", reason, report), null);
            store();
        }
        return failure(running < 0 ? done : running, new NotebookEvent.Failure(0, reason, report));
    }

    /** Returns the signal that the JVM's crash report names; null without a crash report. */
    private static String crash(List<String> lastLines) {
        return lastLines.stream()
                .map(CRASH::matcher)
                .filter(Matcher::lookingAt)
                .map(report -> report.group(1))
                .findFirst()
                .orElse(null);
    }

    private NotebookFailure failure(int cell, NotebookEvent.Failure failure) {
        return new NotebookFailure(
                notebook.name(), "cell [" + (cell + 1) + "]", failure.line(), failure.reason(), failure.report());
    }
}
