package cs336.bench;

import java.util.Locale;

/** The outcome of a measurement. {@link #OOM} is a valid result; only {@link #ERROR} is a failure. */
public enum Status {
    /** The measurement was completed. */
    OK,
    /** The device, the process or the machine ran out of memory. */
    OOM,
    /** The implementation does not support this combination of parameters. */
    UNSUPPORTED,
    /** Rounds of the measurement are missing, because it is running or was interrupted. */
    INCOMPLETE,
    /** The measurement failed with an exception, a crash or an exceeded time limit. */
    ERROR;

    private static final String[] OUT_OF_MEMORY_MESSAGES = {
        "out of memory",
        "can't allocate memory",
        "cublas_status_alloc_failed",
        "bad_alloc",
        "outofmemoryerror",
        "insufficient memory for the java runtime"
    };

    /**
     * Returns the status for an exception: {@link #OOM} for {@link OutOfMemoryError} and for the out-of-memory messages
     * of libtorch's CPU and CUDA allocators, cuBLAS and C++; {@link #UNSUPPORTED} for
     * {@link UnsupportedOperationException}; {@link #ERROR} for all others.
     */
    public static Status of(Throwable thrown) {
        for (Throwable t = thrown; t != null; t = t.getCause()) {
            if (t instanceof OutOfMemoryError || isOutOfMemory(String.valueOf(t.getMessage()))) {
                return OOM;
            }
            if (t instanceof UnsupportedOperationException) {
                return UNSUPPORTED;
            }
        }
        return ERROR;
    }

    /** Returns whether a message says that memory could not be allocated: by libtorch, cuBLAS, C++ or the JVM. */
    public static boolean isOutOfMemory(String message) {
        String lower = message.toLowerCase(Locale.ROOT);
        for (String part : OUT_OF_MEMORY_MESSAGES) {
            if (lower.contains(part)) {
                return true;
            }
        }
        return false;
    }

    /**
     * Returns the value of the column {@code status}: {@code ok}, {@code oom}, {@code unsupported}, {@code incomplete}
     * or {@code error}.
     */
    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
