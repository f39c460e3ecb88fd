package cs336.torch;

import org.bytedeco.pytorch.global.torch;

/** What libtorch's C++ code writes to standard error by itself. */
public final class NativeLog {
    private static final String LEVEL = "TORCH_CPP_LOG_LEVEL";

    private NativeLog() {}

    /**
     * Keeps to itself what is no error: c10d warns, with a C++ stack trace, of what it throws as an exception too. A
     * level that the user has set in TORCH_CPP_LOG_LEVEL stays.
     */
    public static void errorsOnly() {
        Torch.load();
        NativeEnvironment.setDefault(LEVEL, "ERROR");
        torch.initLogging();
    }
}
