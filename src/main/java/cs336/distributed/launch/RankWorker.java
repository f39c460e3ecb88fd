package cs336.distributed.launch;

import cs336.bench.ChildJvm;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.CollectiveFailure;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Serialization;
import cs336.distributed.collectives.World;
import cs336.torch.DeviceKind;
import cs336.torch.NativeCrossing;
import cs336.torch.ProcessEnd;
import cs336.torch.Torch;
import java.io.PrintWriter;
import java.io.Serializable;
import java.io.StringWriter;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiFunction;

/**
 * The process of one rank: loads libtorch, joins the others, runs the program, and answers with what it gave or why it
 * failed.
 *
 * <p>Not for people: {@link Launcher} starts it.
 */
final class RankWorker {
    /** Asked of a rank that has not failed when another has. */
    static final String WHERE = "where";

    private static final Duration SIGN = Duration.ofMillis(500);

    private RankWorker() {}

    /** What a rank has to do; the world comes from the environment, as on a cluster. */
    record Job(
            String program,
            Serializable argument,
            CollectiveBackend backend,
            DeviceKind device,
            Duration timeout,
            int threads)
            implements Serializable {}

    /** What a rank says to its launcher. */
    sealed interface Answer extends Serializable permits Loaded, Alive, At, Value, Failed {}

    /** The native libraries are there. */
    record Loaded() implements Answer {}

    /** It has called more collectives than when it said so last. */
    record Alive() implements Answer {}

    /** What it does at the moment. */
    record At(String place) implements Answer {}

    /** What the program gave, as bytes; the rank has left the group, and ends. */
    record Value(byte[] value) implements Answer {}

    /**
     * Why the rank ends.
     *
     * @param reason one line
     * @param trace of the exception
     * @param amongRanks whether others may be the cause
     */
    record Failed(String reason, String trace, boolean amongRanks) implements Answer {
        static Failed of(Throwable t) {
            var trace = new StringWriter();
            t.printStackTrace(new PrintWriter(trace, true));
            return new Failed(reason(t), trace.toString().strip(), t instanceof CollectiveFailure);
        }

        /** The message's first line, after the exception's name where that says more. */
        static String reason(Throwable t) {
            if (t instanceof CollectiveFailure || t instanceof IllegalArgumentException) return t.getMessage();
            String name = t.getClass().getSimpleName();
            return t.getMessage() == null ? name : name + ": " + CollectiveFailure.reason(t);
        }
    }

    public static void main(String[] args) {
        var launcher = new ChildJvm.Child();
        try {
            Torch.load();
            answer(launcher, new Loaded());
            Job job = Serialization.ofLine(launcher.next());
            Torch.setThreads(job.threads);
            var joined = new AtomicReference<ProcessGroup>();
            answerQuestions(launcher, joined, Thread.currentThread());
            showSigns(launcher, joined);
            joined.set(ProcessGroup.join(World.fromEnvironment(), job.backend, job.device, job.timeout));
            answer(launcher, new Value(run(job, joined.get(), (group, value) -> Serialization.bytes(value))));
        } catch (Throwable t) {
            answer(launcher, Failed.of(t));
            ProcessEnd.now(1);
        }
        ProcessEnd.now(0);
    }

    /**
     * Runs the program in a group and closes that; on a failure leaves it at once.
     *
     * @param last what is done in the group with the value
     */
    static <R extends Serializable, L> L run(Job job, ProcessGroup group, BiFunction<ProcessGroup, R, L> last)
            throws Exception {
        try {
            L value = last.apply(group, RankWorker.<R>program(job.program).run(group, job.argument));
            group.close();
            return value;
        } catch (Throwable t) {
            group.abandon();
            // Where a collective failed in a callback from native code, little is left of it on the way back.
            if (group.failure() != null) throw group.failure();
            Throwable origin = NativeCrossing.origin(t);
            if (origin instanceof Exception exception) throw exception;
            throw t;
        }
    }

    @SuppressWarnings("unchecked") // the launcher took program and argument together
    private static <R extends Serializable> RankProgram<Serializable, R> program(String name)
            throws ReflectiveOperationException {
        return (RankProgram<Serializable, R>)
                Class.forName(name).getDeclaredConstructor().newInstance();
    }

    private static void answer(ChildJvm.Child launcher, Answer answer) {
        launcher.answer(Serialization.line(answer));
    }

    private static void answerQuestions(ChildJvm.Child launcher, AtomicReference<ProcessGroup> joined, Thread main) {
        daemon(() -> {
            while (true) {
                if (launcher.next().equals(WHERE)) answer(launcher, new At(place(joined.get(), main)));
            }
        });
    }

    private static String place(ProcessGroup group, Thread main) {
        String collective = group == null ? null : group.waitingIn();
        if (collective != null) return "waits in " + collective;
        String frames = Arrays.stream(main.getStackTrace())
                .filter(frame -> !frame.getClassName().startsWith("java.")
                        && !frame.getClassName().startsWith("jdk."))
                .limit(2)
                .map(RankWorker::describe)
                .reduce((inner, outer) -> inner + ", called at " + outer)
                .orElse("an unknown place");
        return "is at " + frames + (group == null ? "" : " after " + group.calls() + " collectives");
    }

    private static String describe(StackTraceElement frame) {
        String type = frame.getClassName().replaceFirst(".*[.$]", "");
        return type + "." + frame.getMethodName() + " (" + frame.getFileName() + ":" + frame.getLineNumber() + ")";
    }

    private static void showSigns(ChildJvm.Child launcher, AtomicReference<ProcessGroup> joined) {
        daemon(() -> {
            long said = 0;
            while (true) {
                TimeUnit.NANOSECONDS.sleep(SIGN.toNanos());
                long calls = joined.get() == null ? 0 : joined.get().calls();
                if (calls > said) answer(launcher, new Alive());
                said = calls;
            }
        });
    }

    private interface Work {
        void run() throws InterruptedException;
    }

    private static void daemon(Work work) {
        var thread = new Thread(() -> {
            try {
                work.run();
            } catch (InterruptedException e) {
                // The process ends.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
