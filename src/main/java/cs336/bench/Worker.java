package cs336.bench;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import cs336.torch.Nvtx;

/**
 * The process of one case, or of several that share it. Reads a case, answers with its samples as they come, and at the
 * end with how it ended; then it waits for the next.
 *
 * <p>Not for people: {@link Sweep} starts it.
 */
final class Worker {
    static final Gson JSON =
            new GsonBuilder().serializeSpecialFloatingPointValues().create();

    private Worker() {}

    /**
     * One line of the worker's answer.
     *
     * @param samples a metric's samples, or null in a case's last answer
     * @param status how the case ended, or null before its last answer
     * @param reason why it is not ok
     */
    record WorkerMessage(Samples samples, Status status, String reason) {}

    public static void main(String[] args) throws Exception {
        try (var nvtx = Nvtx.openIfTraced()) {
            work(new ChildJvm.Child());
        }
    }

    /** Until the process is ended. */
    private static void work(ChildJvm.Child parent) throws InterruptedException {
        Workload workload = null;
        while (true) {
            String line = parent.next();
            WorkerMessage last;
            try {
                Case c = JSON.fromJson(line, Case.class);
                if (workload == null) workload = of(c);
                workload.run(c, samples -> parent.answer(JSON.toJson(new WorkerMessage(samples, null, null))));
                last = new WorkerMessage(null, Status.OK, "");
            } catch (Throwable t) {
                t.printStackTrace();
                System.err.flush();
                last = new WorkerMessage(null, Status.of(t), reason(t));
            }
            parent.answer(JSON.toJson(last));
        }
    }

    private static Workload of(Case c) throws ReflectiveOperationException {
        return (Workload) Class.forName(c.workload()).getDeclaredConstructor().newInstance();
    }

    /** The first line of the message, after the exception's name where that says more. */
    private static String reason(Throwable t) {
        String message = String.valueOf(t.getMessage()).lines().findFirst().orElse("");
        return t.getClass() == RuntimeException.class ? message : t.getClass().getSimpleName() + ": " + message;
    }
}
