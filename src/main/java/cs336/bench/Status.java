package cs336.bench;

import java.util.Locale;

/** How a measurement ended. Running out of memory is a result like any other; only {@link #ERROR} is a failure. */
public enum Status {
    /** It was measured. */
    OK,
    /** Device, process or machine ran out of memory. */
    OOM,
    /** The implementation does not offer this combination of parameters. */
    UNSUPPORTED,
    /** Anything else went wrong: an exception, a crash, a passed time limit. */
    ERROR;

    private static final String[] OUT_OF_MEMORY = {
        "out of memory", "can't allocate memory", "cublas_status_alloc_failed", "bad_alloc"
    };

    /**
     * The status that a thrown exception stands for: {@link #OOM} for Java's {@link OutOfMemoryError} and for what
     * libtorch's CPU and CUDA allocators, cuBLAS and C++ say when memory ends; {@link #UNSUPPORTED} for an
     * {@link UnsupportedOperationException}; {@link #ERROR} for all others.
     */
    public static Status of(Throwable thrown) {
        for (Throwable t = thrown; t != null; t = t.getCause()) {
            String message = String.valueOf(t.getMessage()).toLowerCase(Locale.ROOT);
            if (t instanceof OutOfMemoryError) return OOM;
            for (String sign : OUT_OF_MEMORY) if (message.contains(sign)) return OOM;
            if (t instanceof UnsupportedOperationException) return UNSUPPORTED;
        }
        return ERROR;
    }

    /** As it stands in the column {@code status}: {@code ok}, {@code oom}, {@code unsupported}, {@code error}. */
    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
