package cs336.kernels.runtime;

/** A kernel does not compile. The message is the compiler's: file, line, error and the text of the line. */
public final class KernelCompileException extends RuntimeException {
    KernelCompileException(String what, String log) {
        super(what + " does not compile:\n" + log.strip());
    }
}
