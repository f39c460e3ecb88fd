package cs336.distributed.launch;

import cs336.bench.ChildJvm;
import cs336.bench.Status;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.CollectiveFailure;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Serialization;
import cs336.distributed.collectives.World;
import cs336.torch.DeviceKind;
import cs336.torch.NativeCrossing;
import cs336.torch.ProcessEnd;
import cs336.torch.Torch;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.Serializable;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiFunction;

/**
 * The main class of a rank's process, started by {@link Launcher}: loads libtorch, joins the group, runs the program,
 * and sends its value or its failure to the launcher.
 */
final class RankWorker {
    /** Question of the launcher to the remaining ranks after a failure; the reply is {@link CurrentLocation}. */
    static final String WHERE = "where";

    /** Prefix of the reason for a failure that is out of memory. */
    static final String OUT_OF_MEMORY = "out of memory: ";

    private static final Duration HEARTBEAT_INTERVAL = Duration.ofMillis(500);

    private RankWorker() {}

    /**
     * The program to run and its settings. The {@link World} comes from environment variables, as on a cluster.
     *
     * @param store file for the rendezvous
     */
    record Job(
            String program,
            Serializable argument,
            CollectiveBackend backend,
            DeviceKind device,
            Duration timeout,
            int threads,
            String store)
            implements Serializable {}

    /** A message from a rank to its launcher. */
    sealed interface RankMessage extends Serializable permits Loaded, Alive, CurrentLocation, Value, Failed {}

    /** The native libraries are loaded. */
    record Loaded() implements RankMessage {}

    /**
     * A heartbeat, which a rank sends independently of its computation.
     *
     * @param lastCall the last collective that the rank has called; empty if there is none
     */
    record Alive(String lastCall) implements RankMessage {}

    /**
     * The collective or the line of code at which the rank is.
     *
     * @param lastCalls the last collectives that it has called
     */
    record CurrentLocation(String location, List<String> lastCalls) implements RankMessage {}

    /** The serialized value of the program; the rank has left the group and ends. */
    record Value(byte[] value) implements RankMessage {}

    /**
     * A failure, after which the rank ends.
     *
     * @param reason one line
     * @param trace stack trace of the exception
     * @param isExplained whether the reason suffices without the stack trace, as for an invalid argument or file
     * @param amongRanks whether another rank may be the cause
     * @param lastCalls the last collectives that the rank has called
     */
    record Failed(String reason, String trace, boolean isExplained, boolean amongRanks, List<String> lastCalls)
            implements RankMessage {
        static Failed of(Throwable t, ProcessGroup group) {
            MemoryReserve.release();
            boolean isOutOfMemory = Status.of(t) == Status.OOM;
            boolean isInterrupted = t.getCause() instanceof InterruptedException;
            var trace = new StringWriter();
            t.printStackTrace(new PrintWriter(trace, true));
            boolean isExplained = isOutOfMemory
                    || t.getMessage() != null
                            && (t instanceof CollectiveFailure
                                    || t instanceof IllegalArgumentException
                                    || t instanceof IOException
                                    || t instanceof UncheckedIOException);
            return new Failed(
                    reason(t),
                    trace.toString().strip(),
                    isExplained,
                    t instanceof CollectiveFailure c && !c.isDivergence() && !isOutOfMemory && !isInterrupted,
                    RankWorker.lastCalls(group));
        }

        /** Returns the reason, with the stack trace if it is necessary. */
        String message() {
            return isExplained ? reason : reason + "\n" + trace;
        }

        /** Returns the first line of the message, prefixed with the exception's class unless the message suffices. */
        static String reason(Throwable t) {
            if (Status.of(t) == Status.OOM) {
                return OUT_OF_MEMORY + CollectiveFailure.reason(t);
            }
            if (t.getMessage() != null && (t instanceof CollectiveFailure || t instanceof IllegalArgumentException)) {
                return t.getMessage();
            }
            String name = t.getClass().getSimpleName();
            return t.getMessage() == null ? name : name + ": " + CollectiveFailure.reason(t);
        }
    }

    /** Runs one rank. */
    public static void main(String[] args) {
        var launcher = new ChildJvm.Child();
        MemoryReserve.hold();
        var joined = new AtomicReference<ProcessGroup>();
        try {
            Torch.load();
            send(launcher, new Loaded());
            Job job = Serialization.ofLine(launcher.next());
            Torch.setThreads(job.threads);
            answerQuestionsInBackground(launcher, joined, Thread.currentThread());
            sendHeartbeats(launcher, joined);
            joined.set(ProcessGroup.join(
                    World.fromEnvironment(), job.backend, job.device, job.timeout, Path.of(job.store)));
            send(
                    launcher,
                    new Value(run(
                            create(Class.forName(job.program)),
                            job.argument,
                            joined.get(),
                            (group, value) -> Serialization.bytes(value))));
        } catch (Throwable t) {
            try {
                send(launcher, Failed.of(t, joined.get()));
            } finally {
                ProcessEnd.now(1);
            }
        }
        ProcessEnd.now(0);
    }

    /**
     * Runs the program in a group and closes the group; abandons the group after a failure.
     *
     * @param last converts the program's value while the group is still open
     */
    static <A extends Serializable, R extends Serializable, L> L run(
            RankProgram<A, R> program, A argument, ProcessGroup group, BiFunction<ProcessGroup, R, L> last)
            throws Exception {
        try {
            L value = last.apply(group, program.run(group, argument));
            group.close();
            return value;
        } catch (Throwable t) {
            MemoryReserve.release();
            group.abandon();
            // A collective that fails in a callback from native code loses its exception on the way back.
            if (group.failure() != null) {
                throw group.failure();
            }
            Throwable origin = NativeCrossing.origin(t);
            if (origin instanceof Exception exception) {
                throw exception;
            }
            throw t;
        }
    }

    @SuppressWarnings("unchecked") // the launcher has checked the types of program and argument
    private static RankProgram<Serializable, Serializable> create(Class<?> program)
            throws ReflectiveOperationException {
        return (RankProgram<Serializable, Serializable>)
                program.getDeclaredConstructor().newInstance();
    }

    private static void send(ChildJvm.Child launcher, RankMessage message) {
        launcher.answer(Serialization.line(message));
    }

    private static void answerQuestionsInBackground(
            ChildJvm.Child launcher, AtomicReference<ProcessGroup> joined, Thread main) {
        startDaemon(() -> {
            while (true) {
                if (launcher.next().equals(WHERE)) {
                    ProcessGroup group = joined.get();
                    send(launcher, new CurrentLocation(location(group, main), lastCalls(group)));
                }
            }
        });
    }

    private static List<String> lastCalls(ProcessGroup group) {
        return group == null ? List.of() : group.lastCalls();
    }

    /** Describes the state of the main thread of a rank. */
    static String location(ProcessGroup group, Thread main) {
        String collective = group == null ? null : group.waitingIn();
        if (collective != null) {
            return ProcessGroup.BLOCKED + collective;
        }
        String frames = Arrays.stream(main.getStackTrace())
                .filter(frame -> !frame.getClassName().startsWith("java.")
                        && !frame.getClassName().startsWith("jdk."))
                .limit(2)
                .map(RankWorker::describe)
                .reduce((inner, outer) -> inner + ", called at " + outer)
                .orElse("an unknown line");
        return "is at " + frames + (group == null ? "" : " after " + group.calls() + " collectives");
    }

    private static String describe(StackTraceElement frame) {
        String type = frame.getClassName().replaceFirst(".*[.$]", "");
        return type + "." + frame.getMethodName() + " (" + frame.getFileName() + ":" + frame.getLineNumber() + ")";
    }

    private static void sendHeartbeats(ChildJvm.Child launcher, AtomicReference<ProcessGroup> joined) {
        startDaemon(() -> {
            while (true) {
                TimeUnit.NANOSECONDS.sleep(HEARTBEAT_INTERVAL.toNanos());
                List<String> calls = lastCalls(joined.get());
                send(launcher, new Alive(calls.isEmpty() ? "" : calls.get(calls.size() - 1)));
            }
        });
    }

    /** The body of a background thread. */
    private interface InterruptibleTask {
        void run() throws InterruptedException;
    }

    private static void startDaemon(InterruptibleTask task) {
        var thread = new Thread(() -> {
            while (true) {
                try {
                    task.run();
                } catch (InterruptedException e) {
                    return; // at the end of the process
                } catch (OutOfMemoryError e) {
                    // The main thread reports it, if the program does not recover.
                }
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
