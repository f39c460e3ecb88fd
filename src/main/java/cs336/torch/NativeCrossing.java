package cs336.torch;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Java exceptions on their way through native code, from a callback to whoever called the native code. JavaCPP carries
 * only their text across; a number in it finds the exception again.
 */
public final class NativeCrossing {
    /** More than can be under way at once; who never asks for one must not keep it for ever. */
    private static final int KEPT = 64;

    private static final Pattern NUMBER = Pattern.compile("\\[Java exception (\\d+)]");
    private static final Map<Long, Throwable> UNDER_WAY = new LinkedHashMap<>();
    private static long lastNumber;

    private NativeCrossing() {}

    /** What a callback throws in place of its exception. */
    static RuntimeException leave(Throwable thrown) {
        Throwable original = origin(thrown);
        synchronized (UNDER_WAY) {
            lastNumber++;
            UNDER_WAY.put(lastNumber, original);
            UNDER_WAY.keySet().removeIf(number -> number <= lastNumber - KEPT);
            return new NumberedException(original, lastNumber);
        }
    }

    /** The exception that a callback threw, if that is why native code threw this one; otherwise this one. */
    public static Throwable origin(Throwable arrived) {
        Matcher number = NUMBER.matcher(String.valueOf(arrived.getMessage()));
        if (!number.find()) {
            return arrived;
        }
        synchronized (UNDER_WAY) {
            return UNDER_WAY.getOrDefault(Long.valueOf(number.group(1)), arrived);
        }
    }

    private static final class NumberedException extends RuntimeException {
        private static final long serialVersionUID = 1;
        private final long number;

        NumberedException(Throwable cause, long number) {
            super(cause);
            this.number = number;
        }

        /** The text that JavaCPP takes. */
        @Override
        public String toString() {
            return getCause() + " [Java exception " + number + "]";
        }
    }
}
