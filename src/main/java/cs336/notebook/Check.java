package cs336.notebook;

import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import java.io.IOException;
import java.lang.reflect.Array;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A check of an exercise: a comparison of the value that a reader's cell computes with a reference. The {@link Verdict}
 * states the differences.
 *
 * <pre>{@code
 * Tensor gradientOfW(Tensor x, Tensor dy) {
 *     return Check.todo();
 * }
 *
 * Check.that("05.1 gradient of w", () -> gradientOfW(x, dy)).is(reference)
 * }</pre>
 *
 * <p>A check never throws an exception of the code that it checks: the {@link Verdict} contains its message. Names of
 * checks begin with the number of the exercise, which is also the argument of {@link #hint} and {@link #solution}.
 */
public final class Check {
    private static final double EXACT_TOLERANCE = 1e-9;
    private static final double FLOAT32_TOLERANCE = 1e-5;
    private static final double NARROW_TOLERANCE = 2e-2;
    private static final double SMALLEST_TOLD_RATIO = 1e-3;
    private static final int MOST_CHARS = 120;
    private static final int MOST_CHARS_OF_EXCEPTIONS = 400;

    /** The class of a cell, which precedes the names of classes that the cell declares. */
    private static final Pattern JSHELL_CLASS = Pattern.compile("REPL\\.\\$JShell\\$\\w+\\$");

    private static final Pattern EXERCISE = Pattern.compile("(\\d\\d\\.\\d+)\\b.*", Pattern.DOTALL);

    private final String name;
    private final Callable<?> actual;
    private double tolerance = Double.NaN;

    private Check(String name, Callable<?> actual) {
        this.name = Objects.requireNonNull(name, "name must not be null");
        this.actual = Objects.requireNonNull(actual, "code must not be null");
    }

    /**
     * The result of a check; a notebook shows its text.
     *
     * @param passed whether the value is right
     * @param text one or more lines; those of a check begin with ✓ (right), ✗ (wrong) or ○ (not written yet)
     */
    public record Verdict(boolean passed, String text) {
        /** Returns this verdict if it failed, else the result of the other one with the text of both. */
        public Verdict and(Verdict other) {
            return passed ? new Verdict(other.passed, text + "\n" + other.text) : this;
        }

        @Override
        public String toString() {
            return text;
        }
    }

    /** The exception of code that an exercise leaves to the reader. */
    private static final class NotWrittenException extends RuntimeException {
        private static final long serialVersionUID = 1L;

        NotWrittenException() {
            super("not written yet");
        }
    }

    /** Creates a check of the value that the code returns. */
    public static Check that(String name, Callable<?> code) {
        return new Check(name, code);
    }

    /** Creates a check of a value: a tensor, number, string, boolean, array, collection or record. */
    public static Check that(String name, Object value) {
        return new Check(name, () -> value);
    }

    /**
     * Throws an exception in place of the value that an exercise leaves to the reader.
     *
     * @throws RuntimeException always; a check shows it as ○
     */
    public static <T> T todo() {
        throw new NotWrittenException();
    }

    /**
     * Sets the tolerance: the largest |actual − expected| / max(1, largest |expected|). By default 1e-5 for fp32, 2e-2
     * for bf16 and fp16, and 1e-9 for all other numbers.
     */
    public Check within(double largest) {
        tolerance = largest;
        return this;
    }

    /**
     * Compares the value with the expected one. Numbers, tensors, and arrays and collections of these are compared
     * within the tolerance, whatever their types; other values must be equal. A complex number counts as its real and
     * its imaginary part.
     */
    public Verdict is(Object expected) {
        return judge(value -> compare(value, expected));
    }

    /**
     * Checks that the value is a number and at most {@code largest}, such as the error that a gradient check returns.
     */
    public Verdict isAtMost(double largest) {
        return judge(value -> {
            if (!(value instanceof Number number)) {
                return wrong("a number expected, not " + shortened(value));
            }
            double found = number.doubleValue();
            String text = text(found) + ", at most " + text(largest);
            return found <= largest ? right(text) : wrong(text + " expected");
        });
    }

    /**
     * Compares a prediction with a measured value.
     *
     * @param what the predicted quantity, with its unit
     * @return a sentence with both values and, if they are positive, their ratio
     */
    public static String prediction(String what, double predicted, double measured) {
        String comparison = what + ": predicted " + rounded(predicted) + ", measured " + rounded(measured);
        if (!(predicted > 0 && measured > 0)) {
            return comparison;
        }
        double ratio = Math.max(predicted / measured, measured / predicted);
        return comparison
                + (ratio < 1.15
                        ? " – within 15 %"
                        : String.format(Locale.ROOT, " – %.1f× too %s", ratio, predicted > measured ? "high" : "low"));
    }

    /**
     * A hint to an exercise; a notebook shows its formulas.
     *
     * @param text Markdown
     */
    public record Hint(String text) {
        @Override
        public String toString() {
            return text;
        }
    }

    /**
     * Returns the next hint to an exercise, such as {@code "05.1"}, from {@code notebooks/solutions/}.
     *
     * @throws IllegalArgumentException if there is no such exercise
     * @throws IOException if its file cannot be read
     */
    public static Hint hint(String exercise) throws IOException {
        return new Hint(Exercises.hint(exercise));
    }

    /**
     * Returns the code of a solution of an exercise, such as {@code "05.1"}, from {@code notebooks/solutions/}.
     *
     * @throws IllegalArgumentException if there is no such exercise
     * @throws IOException if its file cannot be read
     */
    public static String solution(String exercise) throws IOException {
        return Exercises.solution(exercise);
    }

    private Verdict judge(Function<Object, Verdict> judge) {
        Object value;
        try {
            value = actual.call();
            return value == null ? unwritten("the result is null") : judge.apply(value);
        } catch (Exception | AssertionError | LinkageError | VirtualMachineError e) { // not an interrupt
            return isNotWritten(e) ? unwritten("not written yet") : wrong(thrown(e));
        }
    }

    private static boolean isNotWritten(Throwable error) {
        Throwable cause = error;
        while (cause != null && !(cause instanceof NotWrittenException)) {
            cause = cause.getCause();
        }
        return cause != null;
    }

    private static String thrown(Throwable error) {
        String message = error.getMessage() == null
                ? ""
                : ": " + error.getMessage().lines().findFirst().orElse("");
        String name = error.getClass().getSimpleName();
        return shortened(JSHELL_CLASS.matcher("it throws " + name + message).replaceAll(""), MOST_CHARS_OF_EXCEPTIONS);
    }

    private Verdict right(String details) {
        return new Verdict(true, "✓ " + name + ": " + details);
    }

    private Verdict wrong(String details) {
        return new Verdict(false, "✗ " + name + ": " + details + help());
    }

    private Verdict unwritten(String details) {
        return new Verdict(false, "○ " + name + ": " + details + help());
    }

    private String help() {
        Matcher exercise = EXERCISE.matcher(name);
        return exercise.matches() ? "\n  Check.hint(\"" + exercise.group(1) + "\") shows a hint" : "";
    }

    private Verdict compare(Object value, Object expected) {
        if (value instanceof Tensor tensor && (tensor.isNull() || !tensor.defined())) {
            return wrong("the tensor is " + (tensor.isNull() ? "closed" : "undefined"));
        }
        Numbers found = numbers(value);
        Numbers wanted = numbers(expected);
        if (found != null && wanted != null) {
            return compare(found, wanted);
        }
        if (Objects.deepEquals(value, expected)) {
            return right(shortened(value));
        }
        String wantedText = shortened(expected);
        String foundText = shortened(value);
        if (wantedText.equals(foundText)) {
            wantedText += " (" + type(expected) + ")";
            foundText += " (" + type(value) + ")";
        }
        return wrong(wantedText + " expected, not " + foundText);
    }

    private Verdict compare(Numbers found, Numbers wanted) {
        if (!Arrays.equals(found.shape, wanted.shape)) {
            return wrong("shape " + Arrays.toString(wanted.shape) + " expected, not " + Arrays.toString(found.shape));
        }
        if (found.values.length == 0) {
            return right("[]");
        }
        double allowed = Double.isNaN(tolerance) ? Math.max(found.tolerance, wanted.tolerance) : tolerance;
        double scale = Math.max(
                1,
                Arrays.stream(wanted.values)
                        .map(Math::abs)
                        .filter(Double::isFinite)
                        .max()
                        .orElse(0));
        int differing = 0;
        int worst = -1;
        double largest = 0;
        for (int i = 0; i < found.values.length; i++) {
            boolean same = Double.compare(found.values[i], wanted.values[i]) == 0;
            double difference = same ? 0 : Math.abs(found.values[i] - wanted.values[i]);
            if (!(difference <= allowed * scale)) {
                differing++;
            }
            if (worst < 0 || !(difference <= largest)) {
                largest = difference;
                worst = i;
            }
            if (Double.isNaN(largest)) {
                break;
            }
        }
        if (differing == 0) {
            return right(
                    found.shape.length == 0
                            ? text(found.values[0])
                            : "largest difference " + text(largest) + " over " + text(found.values.length)
                                    + " elements");
        }
        String values = text(wanted.values[worst]) + " expected, not " + text(found.values[worst]);
        if (text(wanted.values[worst]).equals(text(found.values[worst]))) {
            values = text(wanted.values[worst]) + " expected, but the difference is " + text(largest);
        }
        if (found.shape.length == 0) {
            return wrong(values + comparison(found.values[0], wanted.values[0]));
        }
        String which = Double.isNaN(largest)
                ? "element " + found.index(worst) + ": "
                : text(differing) + " of " + text(found.values.length) + " elements differ, most at "
                        + found.index(worst) + ": ";
        return wrong(which + values + commonRatio(found, wanted, worst, allowed * scale));
    }

    /** Returns the ratio of two numbers, or their difference if it is small; empty if neither helps. */
    private static String comparison(double found, double wanted) {
        double ratio = found / wanted;
        if (isTelling(ratio)) {
            return ratio == 0 ? "" : " (" + text(ratio) + " × as large)";
        }
        boolean differs = Double.isFinite(ratio) && !text(found).equals(text(wanted));
        return differs ? " (" + text(Math.abs(found - wanted)) + (found < wanted ? " less)" : " more)") : "";
    }

    /** Returns whether a ratio of numbers is finite and differs from 1 in its text. */
    private static boolean isTelling(double ratio) {
        return Double.isFinite(ratio) && Math.abs(ratio - 1) >= SMALLEST_TOLD_RATIO;
    }

    /** Returns the factor by which all elements differ from the expected ones; empty if there is no such factor. */
    private static String commonRatio(Numbers found, Numbers wanted, int worst, double allowed) {
        double ratio = found.values[worst] / wanted.values[worst];
        if (!isTelling(ratio) || found.values.length == 1) {
            return "";
        }
        for (int i = 0; i < found.values.length; i++) {
            if (!(Math.abs(found.values[i] - ratio * wanted.values[i]) <= allowed)) {
                return "";
            }
        }
        return ratio == 0 ? "; all elements are 0" : "; all elements are " + text(ratio) + " × as large";
    }

    /** Numbers with a shape, which is empty for a single one, and the tolerance of their type. */
    private record Numbers(double[] values, long[] shape, double tolerance) {
        String index(int element) {
            long rest = element;
            long[] index = new long[shape.length];
            for (int d = shape.length - 1; d >= 0; d--) {
                index[d] = rest % shape[d];
                rest /= shape[d];
            }
            return Arrays.toString(index);
        }
    }

    /** Returns the numbers of a value; null if it contains anything but numbers. */
    private static Numbers numbers(Object value) {
        if (value instanceof Tensor tensor) {
            try (var scope = MemoryScope.open();
                    var noGrad = NoGrad.open()) {
                // A complex number is two numbers of the last dimension.
                Tensor real =
                        tensor.is_complex() ? torch.view_as_real(tensor.detach().resolve_conj()) : tensor;
                return new Numbers(Tensors.toDoubles(real), Tensors.shape(real), tolerance(DType.of(real)));
            }
        }
        if (value instanceof Number number) {
            return new Numbers(new double[] {number.doubleValue()}, new long[0], tolerance(number));
        }
        Object[] elements = elements(value);
        return elements == null
                ? null
                : joined(Arrays.stream(elements).map(Check::numbers).toList());
    }

    /** Returns the numbers of all elements of an array; null if one contains anything else or has another shape. */
    private static Numbers joined(List<Numbers> elements) {
        long[] shape = elements.isEmpty() || elements.get(0) == null ? new long[0] : elements.get(0).shape;
        if (elements.stream().anyMatch(element -> element == null || !Arrays.equals(element.shape, shape))) {
            return null;
        }
        return new Numbers(
                elements.stream()
                        .flatMapToDouble(element -> Arrays.stream(element.values))
                        .toArray(),
                LongStream.concat(LongStream.of(elements.size()), LongStream.of(shape))
                        .toArray(),
                elements.stream().mapToDouble(Numbers::tolerance).max().orElse(EXACT_TOLERANCE));
    }

    private static Object[] elements(Object value) {
        if (value instanceof Collection<?> collection) {
            return collection.toArray();
        }
        if (value == null || !value.getClass().isArray()) {
            return null;
        }
        return IntStream.range(0, Array.getLength(value))
                .mapToObj(i -> Array.get(value, i))
                .toArray();
    }

    private static String type(Object value) {
        String name = value == null ? "null" : value.getClass().getSimpleName();
        Object[] elements = elements(value);
        return elements == null
                ? name
                : Arrays.stream(elements)
                        .map(Check::type)
                        .distinct()
                        .collect(Collectors.joining(", ", name + " of ", ""));
    }

    private static double tolerance(DType type) {
        return switch (type) {
            case FLOAT32 -> FLOAT32_TOLERANCE;
            case BFLOAT16, FLOAT16 -> NARROW_TOLERANCE;
            default -> EXACT_TOLERANCE;
        };
    }

    private static double tolerance(Number number) {
        return number instanceof Float ? FLOAT32_TOLERANCE : EXACT_TOLERANCE;
    }

    private static String text(double number) {
        if (number == Math.rint(number) && Math.abs(number) < 1e15) {
            return String.format(Locale.ROOT, "%,d", (long) number);
        }
        boolean isLarge = Math.abs(number) >= 1e3 && Math.abs(number) < 1e15; // %g would write an exponent
        return String.format(Locale.ROOT, isLarge ? "%,.0f" : "%,.4g", number);
    }

    private static String rounded(double number) {
        return String.format(Locale.ROOT, Math.abs(number) < 100 ? "%.3g" : "%,.0f", number);
    }

    private static String shortened(Object value) {
        return shortened(value, MOST_CHARS);
    }

    private static String shortened(Object value, int most) {
        String text = (value instanceof String string ? string : PlainText.of(value))
                .lines()
                .collect(Collectors.joining(" "));
        return text.length() <= most ? text : text.substring(0, most - 1) + "…";
    }
}
