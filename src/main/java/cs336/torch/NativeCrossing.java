package cs336.torch;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The transfer of Java exceptions from a callback through native code to the caller of the native code. JavaCPP
 * transfers only the message. A number in the message identifies the original exception.
 */
public final class NativeCrossing {
    /** The number of exceptions to remember. The oldest are dropped, because a caller may never ask for them. */
    private static final int CAPACITY = 64;

    private static final Pattern NUMBER = Pattern.compile("\\[Java exception (\\d+)]");
    private static final Map<Long, Throwable> IN_TRANSIT = new LinkedHashMap<>();
    private static long lastNumber;

    private NativeCrossing() {}

    /** Returns the exception that a callback must throw in place of {@code thrown}. */
    public static RuntimeException wrap(Throwable thrown) {
        Throwable original = origin(thrown);
        synchronized (IN_TRANSIT) {
            lastNumber++;
            IN_TRANSIT.put(lastNumber, original);
            IN_TRANSIT.keySet().removeIf(number -> number <= lastNumber - CAPACITY);
            return new NumberedException(original, lastNumber);
        }
    }

    /**
     * Returns the exception of the callback that caused this exception of native code, or this exception if no callback
     * did.
     */
    public static Throwable origin(Throwable arrived) {
        Matcher number = NUMBER.matcher(String.valueOf(arrived.getMessage()));
        if (!number.find()) {
            return arrived;
        }
        synchronized (IN_TRANSIT) {
            return IN_TRANSIT.getOrDefault(Long.valueOf(number.group(1)), arrived);
        }
    }

    private static final class NumberedException extends RuntimeException {
        private static final long serialVersionUID = 1;
        private final long number;

        NumberedException(Throwable cause, long number) {
            super(cause);
            this.number = number;
        }

        /** Returns the message that JavaCPP transfers. The number is first because JavaCPP cuts off long messages. */
        @Override
        public String toString() {
            return "[Java exception " + number + "] " + getCause();
        }
    }
}
