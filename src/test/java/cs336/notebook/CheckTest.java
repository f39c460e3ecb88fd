package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.torch.Tensors;
import java.util.List;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class CheckTest {
    private static Tensor tensor(DType type, double... values) {
        return Tensors.of(values, type, values.length);
    }

    static Stream<Arguments> values() {
        return Stream.of(
                Arguments.of(3, 3.0, "✓ a: 3"),
                Arguments.of(0.1 + 0.2, 0.3, "✓ a: 0.3000"),
                Arguments.of(1, 4, "✗ a: 4 expected, not 1 (0.2500 × as large)"),
                Arguments.of(-3, 3, "✗ a: 3 expected, not -3 (-1 × as large)"),
                Arguments.of(0, 3, "✗ a: 3 expected, not 0"),
                Arguments.of(2, 0, "✗ a: 0 expected, not 2"),
                Arguments.of(4.2e7 + 0.25, 24e6, "✗ a: 24,000,000 expected, not 42,000,000 (1.750 × as large)"),
                Arguments.of(0.25, 0.25 + 1e-7, "✗ a: 0.2500 expected, but the difference is 1.000e-07"),
                Arguments.of(9_992, 10_000, "✗ a: 10,000 expected, not 9,992 (8 less)"),
                Arguments.of(-9_992, -10_000, "✗ a: -10,000 expected, not -9,992 (8 more)"),
                Arguments.of(Double.NaN, 3, "✗ a: 3 expected, not NaN"),
                Arguments.of("abc", "abc", "✓ a: abc"),
                Arguments.of("abc", "abd", "✗ a: abd expected, not abc"),
                Arguments.of(true, false, "✗ a: false expected, not true"),
                Arguments.of(List.of("b", "a"), List.of("a", "b"), "✗ a: [a, b] expected, not [b, a]"),
                Arguments.of(List.of(1, 2), new double[] {1, 2}, "✓ a: largest difference 0 over 2 elements"),
                Arguments.of(
                        new long[] {1, 5, 3},
                        new int[] {1, 2, 3},
                        "✗ a: 1 of 3 elements differ, most at [1]: 2 expected, not 5"),
                Arguments.of(
                        new double[] {1, 0, 4},
                        new double[] {2, 0, 8},
                        "✗ a: 2 of 3 elements differ, most at [2]: 8 expected, not 4; all elements are 0.5000 × as large"),
                Arguments.of(
                        new double[2],
                        new double[] {2, 1},
                        "✗ a: 2 of 2 elements differ, most at [0]: 2 expected, not 0; all elements are 0"),
                Arguments.of(new long[] {1}, new int[] {1, 2}, "✗ a: shape [2] expected, not [1]"),
                Arguments.of("x", 1, "✗ a: 1 expected, not x"),
                Arguments.of("1.2", 1.2, "✗ a: 1.2 (Double) expected, not 1.2 (String)"),
                Arguments.of(
                        new String[] {"1", "2"},
                        new Integer[] {1, 2},
                        "✗ a: [1, 2] (Integer[] of Integer) expected, not [1, 2] (String[] of String)"),
                Arguments.of("null", null, "✗ a: null (null) expected, not null (String)"),
                Arguments.of(
                        tensor(DType.FLOAT32, 1, 2.000001),
                        tensor(DType.FLOAT32, 1, 2),
                        "✓ a: largest difference 9.537e-07 over 2 elements"),
                Arguments.of(
                        tensor(DType.FLOAT32, 1, 2.001),
                        tensor(DType.FLOAT64, 1, 2),
                        "✗ a: 1 of 2 elements differ, most at [1]: 2 expected, not 2.001"),
                Arguments.of(
                        tensor(DType.FLOAT32, 1, Double.NaN, 3),
                        tensor(DType.FLOAT32, 9, 2, 3),
                        "✗ a: element [1]: 2 expected, not NaN"),
                Arguments.of(
                        tensor(DType.FLOAT32, 1, 2, 3, 4).view(2, 2),
                        tensor(DType.FLOAT32, 1, 2, 3, 5).view(2, 2),
                        "✗ a: 1 of 4 elements differ, most at [1, 1]: 5 expected, not 4"),
                Arguments.of(
                        tensor(DType.FLOAT32, 1, 2, 3, 4, 5, 6).view(2, 3),
                        tensor(DType.FLOAT32, 1, 2, 3, 4, 5, 9).view(2, 3),
                        "✗ a: 1 of 6 elements differ, most at [1, 2]: 9 expected, not 6"),
                Arguments.of(
                        new double[] {1, 2.000001},
                        tensor(DType.FLOAT32, 1, 2),
                        "✓ a: largest difference 1.000e-06 over 2 elements"),
                Arguments.of(new Tensor(), tensor(DType.FLOAT32, 1), "✗ a: the tensor is undefined"),
                Arguments.of(new double[0], List.of(), "✓ a: []"),
                Arguments.of(
                        new double[][] {{0.1 + 0.2}, {1}},
                        List.of(List.of(0.3), new float[] {1}),
                        "✓ a: largest difference 5.551e-17 over 2 elements"),
                Arguments.of(
                        new int[][] {{1, 2}, {3, 5}},
                        new int[][] {{1, 2}, {3, 4}},
                        "✗ a: 1 of 4 elements differ, most at [1, 1]: 4 expected, not 5"),
                Arguments.of(
                        new int[][] {{1}, {2, 3}},
                        new int[][] {{1}, {2, 4}},
                        "✗ a: [[1], [2, 4]] expected, not [[1], [2, 3]]"),
                Arguments.of(List.of(1, 0.1f), List.of(1, 0.1), "✓ a: largest difference 1.490e-09 over 2 elements"),
                Arguments.of(
                        List.of(tensor(DType.FLOAT32, 1, 2)),
                        List.of(tensor(DType.FLOAT32, 1, 3)),
                        "✗ a: 1 of 2 elements differ, most at [0, 1]: 3 expected, not 2"));
    }

    @ParameterizedTest
    @MethodSource("values")
    void verdictSaysWhatDiffers(Object value, Object expected, String text) {
        Check.Verdict verdict = Check.that("a", value).is(expected);
        assertEquals(text, verdict.toString());
        assertEquals(text.startsWith("✓"), verdict.passed());
    }

    @Test
    void complexNumbersAreComparedWithTheirImaginaryParts() {
        Tensor parts = tensor(DType.FLOAT32, 1, 2, 3, 4).view(2, 2);
        Tensor complex = torch.view_as_complex(parts);
        assertTrue(Check.that("a", complex.clone()).is(complex).passed());
        assertTrue(Check.that("a", complex.add(new Scalar(1e-6))).is(complex).passed());
        assertEquals(
                "✗ a: 2 of 4 elements differ, most at [1, 1]: -4 expected, not 4",
                Check.that("a", complex).is(complex.conj()).text());
        assertFalse(Check.that("a", complex).is(torch.real(complex)).passed());
    }

    @Test
    void infinitiesThatAgreePass() {
        Tensor infinite = tensor(DType.FLOAT64, Double.NEGATIVE_INFINITY, 1);
        assertTrue(Check.that("a", infinite).is(infinite.clone()).passed());
        assertFalse(Check.that("a", infinite).is(tensor(DType.FLOAT64, 0, 1)).passed());
        Tensor other = tensor(DType.FLOAT64, Double.NEGATIVE_INFINITY, 2);
        assertFalse(Check.that("a", infinite).is(other).passed(), "the tolerance is that of the finite numbers");
    }

    @Test
    void toleranceIsRelativeToTheLargestElement() {
        Tensor large = tensor(DType.FLOAT64, 1000, 1);
        Tensor near = large.add(new Scalar(0.5));
        assertTrue(Check.that("a", near).within(1e-3).is(large).passed());
        assertFalse(Check.that("a", near).within(1e-4).is(large).passed());
    }

    private static double unwritten() {
        return Check.todo();
    }

    @Test
    void codeThatIsNotWrittenIsToldFromWrongCode() {
        assertEquals(
                "○ 05.3 a: not written yet\n  Check.hint(\"05.3\") shows a hint",
                Check.that("05.3 a", () -> unwritten()).is(1).text());
        assertEquals(
                "○ a: the result is null", Check.that("a", () -> null).is(1).text());
        Check.Verdict wrapped = Check.that("a", () -> {
                    try {
                        return unwritten();
                    } catch (RuntimeException e) {
                        throw new IllegalStateException("rank 0", e);
                    }
                })
                .is(1);
        assertEquals("○ a: not written yet", wrapped.text());
    }

    @Test
    void exceptionsOfTheCodeAreShown() {
        Check.Verdict verdict = Check.that("a", () -> Integer.parseInt("x")).is(1);
        assertEquals("✗ a: it throws NumberFormatException: For input string: \"x\"", verdict.text());
        Check.Verdict failed = Check.that("a", () -> {
                    throw new AssertionError("element [0]\nand more");
                })
                .isAtMost(1);
        assertEquals("✗ a: it throws AssertionError: element [0]", failed.text());
        Check.Verdict ofACell = Check.that("a", () -> {
                    throw new IllegalStateException("backward of REPL.$JShell$108C$Squares must return 2 gradients");
                })
                .is(1);
        assertEquals(
                "✗ a: it throws IllegalStateException: backward of Squares must return 2 gradients", ofACell.text());
    }

    private static final class FailsToLoad {
        static final int VALUE = Integer.parseInt("x");
    }

    @Test
    void errorsOfTheVirtualMachineAreShown() {
        String text = Check.that("a", () -> FailsToLoad.VALUE).is(1).text();
        assertEquals("✗ a: it throws ExceptionInInitializerError", text);
        text = Check.that("a", () -> new long[Integer.MAX_VALUE][]).is(1).text();
        assertTrue(text.startsWith("✗ a: it throws OutOfMemoryError: "), text);
    }

    @Test
    void errorsAreComparedWithTheirLimit() {
        assertEquals(
                "✓ a: 1.000e-07, at most 1.000e-06",
                Check.that("a", 1e-7).isAtMost(1e-6).text());
        assertEquals(
                "✗ a: 0.1000, at most 1.000e-06 expected",
                Check.that("a", 0.1).isAtMost(1e-6).text());
        assertFalse(Check.that("a", Double.NaN).isAtMost(1).passed());
        assertFalse(Check.that("a", "x").isAtMost(1).passed());
    }

    @Test
    void verdictsAreCombined() {
        Check.Verdict right = Check.that("a", 1).is(1);
        Check.Verdict wrong = Check.that("b", 1).is(2);
        assertEquals("✓ a: 1\n✓ a: 1", right.and(right).text());
        assertEquals(new Check.Verdict(false, "✓ a: 1\n" + wrong.text()), right.and(wrong));
        assertEquals(wrong, wrong.and(right));
    }

    @Test
    void predictionsAreCompared() {
        assertEquals("time (ms): predicted 2.00, measured 6.00 – 3.0× too low", Check.prediction("time (ms)", 2, 6));
        assertEquals("time (ms): predicted 6.00, measured 2.00 – 3.0× too high", Check.prediction("time (ms)", 6, 2));
        assertEquals("time (ms): predicted 2.10, measured 2.00 – within 15 %", Check.prediction("time (ms)", 2.1, 2));
        assertEquals("change: predicted 0.00, measured 2.00", Check.prediction("change", 0, 2));
    }

    @Test
    void hintsComeOneAfterTheOther() throws Exception {
        while (!Check.hint("05.1").text().startsWith("There are no more hints")) {
            // Another test may have asked for some.
        }
        String first = Check.hint("05.1").text();
        assertTrue(first.startsWith("Hint 1 of "), first);
        int hints = Integer.parseInt(first.replaceFirst("Hint 1 of (\\d+):(?s:.*)", "$1"));
        for (int i = 2; i <= hints; i++) {
            assertTrue(Check.hint("05.1").text().startsWith("Hint " + i + " of " + hints));
        }
        assertTrue(Check.hint("05.1").text().contains("Check.solution(\"05.1\")"));
        assertTrue(Check.hint("05.1").text().startsWith("Hint 1 of "));
        assertTrue(Check.solution("05.1").contains("Check.that(\"05.1 "));
    }

    @Test
    void unknownExercisesAreNamed() {
        assertEquals(
                "there is no exercise 05.99 in notebooks/solutions",
                assertThrows(IllegalArgumentException.class, () -> Check.hint("05.99"))
                        .getMessage());
        assertThrows(IllegalArgumentException.class, () -> Check.solution("five"));
    }
}
