package cs336.torch;

import com.sun.jna.NativeLibrary;

/**
 * The immediate exit of this process. {@link System#exit} and even {@link Runtime#halt} run the destructors of native
 * libraries, which block on collectives that never complete.
 */
public final class ProcessEnd {
    private ProcessEnd() {}

    /** Flushes the standard streams and calls {@code _exit}. No shutdown hook runs. */
    public static void now(int exitCode) {
        System.out.flush();
        System.err.flush();
        NativeLibrary.getProcess().getFunction("_exit").invoke(new Object[] {exitCode});
    }
}
