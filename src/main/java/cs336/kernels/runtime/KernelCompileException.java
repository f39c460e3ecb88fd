package cs336.kernels.runtime;

/**
 * The exception for a compile error in a kernel source. The message is the compiler's log, with file, line and source
 * text.
 */
public final class KernelCompileException extends RuntimeException {
    KernelCompileException(String source, String log) {
        super(source + " does not compile:\n" + log.strip());
    }
}
