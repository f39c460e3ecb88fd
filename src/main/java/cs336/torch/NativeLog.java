package cs336.torch;

import org.bytedeco.pytorch.global.torch;

/** The log of libtorch's C++ code on standard error. */
public final class NativeLog {
    private static final String LEVEL = "TORCH_CPP_LOG_LEVEL";

    private NativeLog() {}

    /**
     * Suppresses messages below errors. Otherwise c10d also logs each failure that it throws as an exception, with a
     * C++ stack trace. A level that the user has set in TORCH_CPP_LOG_LEVEL has priority.
     */
    public static void errorsOnly() {
        Torch.load();
        NativeEnvironment.setDefault(LEVEL, "ERROR");
        torch.initLogging();
    }
}
