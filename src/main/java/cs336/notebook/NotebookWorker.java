package cs336.notebook;

import cs336.bench.ChildJvm;
import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The main class of the process that executes one notebook. It reads the imports, prepares an evaluator, reads the
 * request, and sends events until all cells have run, or until one has failed and the request does not say to go on.
 */
final class NotebookWorker {
    /** The number of times that a cell is interrupted before the process ends. */
    private static final int MOST_INTERRUPTS = 4;

    private static final long INTERRUPT_MS = 500;

    /** Time after the time limit that a cell has to end. Then the runner ends the process. */
    static final Duration GRACE = Duration.ofSeconds(15);

    private final ChildJvm.Child runner = new ChildJvm.Child();
    private final LimitedOutputs outputs = new LimitedOutputs(event -> runner.answer(event.line()));
    private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(NotebookWorker::daemon);
    private long timeLimitMs;

    private NotebookWorker() {}

    /** Runs the worker; started by {@link NotebookRunner}. */
    public static void main(String[] args) throws Exception {
        System.setProperty("java.awt.headless", "true");
        Locale.setDefault(Locale.ENGLISH);
        new NotebookWorker().work();
        // Threads started by cells must not keep the process alive.
        System.exit(0);
    }

    private void work() throws InterruptedException, CellException, IOException {
        var kernel = new JavaKernel(Imports.valueOf(runner.next()), outputs);
        // A cell may end this process; its output so far is sent then, too.
        Runtime.getRuntime().addShutdownHook(new Thread(kernel::flush));
        // The first cell loads classes, which must not count for the time limit.
        kernel.eval("1 + 1", 0);
        NativeOutput.capture();
        NotebookEvent.Request request = NotebookEvent.Request.parse(runner.next());
        timeLimitMs = request.timeLimitMs();
        for (int i = 0; i < request.cells().size(); i++) {
            outputs.begin(i);
            NotebookEvent.Failure failure = execute(kernel, request.cells().get(i), i + 1);
            outputs.end(failure);
            if (failure != null && !request.keepsGoing()) {
                break;
            }
        }
        runner.answer(NotebookEvent.finished().line());
    }

    /** Runs a cell and returns its failure; null if it succeeded, or if it may fail and kept the time limit. */
    private NotebookEvent.Failure execute(JavaKernel kernel, NotebookEvent.CodeCell cell, int count) {
        var interrupts = new AtomicInteger();
        // Repeated, because a cell can catch the first interrupt.
        ScheduledFuture<?> alarm = timer.scheduleWithFixedDelay(
                () -> {
                    if (interrupts.incrementAndGet() > MOST_INTERRUPTS) {
                        giveUp();
                    }
                    interrupt(kernel);
                },
                timeLimitMs,
                INTERRUPT_MS,
                TimeUnit.MILLISECONDS);
        try {
            DisplayData result = kernel.eval(cell.source(), count);
            if (result != null) {
                outputs.result(result, count);
            }
            return interrupts.get() == 0 ? null : tooSlow(0, "", List.of());
        } catch (CellException error) {
            outputs.error(error.name(), error.getMessage(), error.report());
            if (interrupts.get() > 0) {
                return tooSlow(error.line(), "", error.report());
            }
            if (cell.mayFail()) {
                return null;
            }
            List<String> report = LimitedOutputs.shortened(error.report());
            String reason = report.get(0).replaceFirst("^cell \\[\\d+], line \\d+: ", "");
            return new NotebookEvent.Failure(error.line(), reason, report);
        } finally {
            alarm.cancel(false);
            CompletableFuture.runAsync(() -> {}, timer).join(); // until an alarm that runs has ended
        }
    }

    private static void interrupt(JavaKernel kernel) {
        try {
            kernel.interrupt();
        } catch (IllegalStateException e) {
            // This virtual machine cannot stop a thread. The timer goes on and ends the process.
        }
    }

    private void giveUp() {
        NotebookEvent.Failure failure = tooSlow(0, " and could not be interrupted", List.of());
        outputs.error("Interrupted", failure.reason(), List.of(failure.reason()));
        outputs.end(failure);
        runner.answer(NotebookEvent.finished().line());
        runner.end(1);
    }

    private NotebookEvent.Failure tooSlow(int line, String addition, List<String> report) {
        return new NotebookEvent.Failure(
                line, "took longer than " + seconds(timeLimitMs) + addition, LimitedOutputs.shortened(report));
    }

    /** Returns a time with its unit, such as {@code "2 s"} or {@code "0.5 s"}. */
    static String seconds(long milliseconds) {
        return (milliseconds % 1000 == 0 ? String.valueOf(milliseconds / 1000) : milliseconds / 1e3 + "") + " s";
    }

    private static Thread daemon(Runnable task) {
        var thread = new Thread(task, "cell time limit");
        thread.setDaemon(true);
        return thread;
    }
}
