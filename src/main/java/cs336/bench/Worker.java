package cs336.bench;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import cs336.torch.Nvtx;
import java.io.IOException;

/**
 * The main class of the JVM in which {@link Sweep} runs a case, or several cases that share it. It reads a case, sends
 * each metric's samples when they are complete, sends the status at the end, and waits for the next case.
 */
final class Worker {
    static final Gson JSON =
            new GsonBuilder().serializeSpecialFloatingPointValues().create();

    private Worker() {}

    /**
     * A message from the worker to the sweep, one line of JSON.
     *
     * @param samples the samples of a metric; null in the last message of a case
     * @param status the outcome of the case; null in all messages before the last
     * @param reason the reason if the status is not ok
     */
    record WorkerMessage(Samples samples, Status status, String reason) {}

    /** Runs the worker; started by {@link Sweep}. */
    public static void main(String[] args) throws Exception {
        try (var nvtx = Nvtx.openIfTraced()) {
            work(new ChildJvm.Child());
        }
    }

    /** Runs cases until the parent ends this process. */
    private static void work(ChildJvm.Child parent) throws InterruptedException {
        Workload workload = null;
        while (true) {
            String line = parent.next();
            WorkerMessage last;
            try {
                Case c = JSON.fromJson(line, Case.class);
                if (workload == null) {
                    workload = of(c);
                }
                workload.run(c, samples -> parent.answer(JSON.toJson(new WorkerMessage(samples, null, null))));
                last = new WorkerMessage(null, Status.OK, "");
            } catch (Throwable t) {
                if (!(t instanceof IOException)) { // the message names the file, which says more than a stack trace
                    t.printStackTrace();
                    System.err.flush();
                }
                last = new WorkerMessage(null, Status.of(t), reason(t));
            }
            parent.answer(JSON.toJson(last));
        }
    }

    private static Workload of(Case c) throws ReflectiveOperationException {
        return (Workload) Class.forName(c.workload()).getDeclaredConstructor().newInstance();
    }

    /** Returns the first line of the message, with the name of the exception unless it is a RuntimeException. */
    private static String reason(Throwable t) {
        String message = String.valueOf(t.getMessage()).lines().findFirst().orElse("");
        return t.getClass() == RuntimeException.class ? message : t.getClass().getSimpleName() + ": " + message;
    }
}
