package cs336.bench;

import com.sun.jna.NativeLibrary;
import com.sun.jna.Platform;
import org.junit.platform.launcher.LauncherSession;
import org.junit.platform.launcher.LauncherSessionListener;

/**
 * Linux's scheduling policy for batch jobs, for the tests and the processes that they start. Under this policy, a
 * thread that wakes up does not interrupt a running one.
 *
 * <p>Gloo's thread for events retries without a pause while another thread sends and holds the lock of the connection.
 * By default, the message that is sent wakes up threads that interrupt the sender, often for milliseconds.
 */
public final class BatchScheduling implements LauncherSessionListener {
    private static final int SCHED_BATCH = 3;

    /** Sets the policy of this thread, from which threads and processes inherit it. */
    @Override
    public void launcherSessionOpened(LauncherSession session) {
        if (Platform.isLinux()) {
            int[] priority = {0};
            NativeLibrary.getProcess()
                    .getFunction("sched_setscheduler")
                    .invokeInt(new Object[] {0, SCHED_BATCH, priority});
        }
    }
}
