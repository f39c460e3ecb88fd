package cs336.torch;

import com.sun.jna.NativeLibrary;

/**
 * The immediate exit of this process, now or with its parent. {@link System#exit} and even {@link Runtime#halt} run the
 * destructors of native libraries, which block on collectives that never complete.
 */
public final class ProcessEnd {
    private static final int PR_SET_PDEATHSIG = 1; // see prctl(2)
    private static final long SIGKILL = 9;

    private ProcessEnd() {}

    /**
     * Makes Linux kill this process when the thread that started it ends for any reason. This works for a stopped
     * process too.
     */
    public static void withParent() {
        NativeLibrary.getProcess().getFunction("prctl").invokeInt(new Object[] {PR_SET_PDEATHSIG, SIGKILL, 0L, 0L, 0L});
    }

    /** Flushes the standard streams and calls {@code _exit}. No shutdown hook runs. */
    public static void now(int exitCode) {
        System.out.flush();
        System.err.flush();
        NativeLibrary.getProcess().getFunction("_exit").invoke(new Object[] {exitCode});
    }
}
