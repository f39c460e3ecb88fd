package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.AttackCount;
import cs336.compile.trace.SourceLine;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.ref.WeakReference;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

public class EvaluatorTest {
    private static Evaluator evaluator;

    /** Cells write to this field, because they share the class loader of the test. */
    public static volatile Object shared;

    private static final String SIGNAL = "cs336.notebook.EvaluatorTest.shared = 1; ";

    @BeforeAll
    static void open() {
        evaluator = new Evaluator(Imports.GENEROUS);
    }

    @AfterAll
    static void close() {
        evaluator.close();
    }

    private static Object eval(String cell) throws CellException {
        return evaluator.eval(cell, 1);
    }

    private static <E extends CellException> E fails(Class<E> kind, String cell) {
        return assertThrows(kind, () -> evaluator.eval(cell, 7));
    }

    /** Returns what error messages call the line that calls this method. */
    public static String caller() {
        StackTraceElement frame = StackWalker.getInstance()
                .walk(frames -> frames.skip(1).findFirst().orElseThrow().toStackTraceElement());
        return evaluator.nameOf(frame).orElse(frame.toString());
    }

    @Test
    void aLineOfARunningCellHasTheNameThatErrorsHave() throws CellException {
        String caller = "cs336.notebook.EvaluatorTest.caller()";
        assertEquals("cell [3], line 1", evaluator.eval(caller, 3));
        assertEquals("cell [4], line 3", evaluator.eval("int lineTest = 1;\n\nString at = " + caller + ";\nat", 4));
        assertEquals(
                "cell [5], line 5",
                evaluator.eval("String in;\ntry {\n  lineTest++;\n  in =\n" + caller + ";\n} finally {}\nin", 5));
        evaluator.eval("String inMethod() {\n  lineTest++;\n  return " + caller + ";\n}", 6);
        evaluator.eval(
                "\n// a class\nclass LineTest {\n  static String at() {\n    return new Object() {\n      String at() {\n        return "
                        + caller + ";\n      }\n    }.at();\n  }\n}",
                7);
        assertEquals("cell [6], line 3", evaluator.eval("inMethod()", 8));
        assertEquals("cell [7], line 7", evaluator.eval("LineTest.at()", 9));
        assertEquals(
                "[cell [10], line 2]",
                evaluator
                        .eval("java.util.stream.Stream.of(1).map(i -> {\n  return " + caller + ";\n}).toList()", 10)
                        .toString());
        assertTrue(caller().startsWith("cs336.notebook.EvaluatorTest."), caller());
    }

    @Test
    void aFunctionThatCannotBeRecordedNamesItsCellAndLine() throws CellException {
        SourceLine.nameBy(evaluator::nameOf);
        try {
            Object message = evaluator.eval("""
                    String refused;
                    Tensor ones = torch.ones(2);
                    try (var recorded = cs336.compile.Compiled.of(in ->
                            new Tensor[] {in[0].div(new Scalar(in[0].sum().item_double()))})) {
                        recorded.apply(ones);
                        refused = "recorded";
                    } catch (cs336.compile.trace.UnrecordableException e) {
                        refused = e.getMessage();
                    }
                    refused""", 11);
            assertTrue(message.toString().endsWith(", called at cell [11], line 4"), message.toString());
        } finally {
            SourceLine.nameBy(frame -> Optional.empty());
        }
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "1 + 2",
                "int a = 1, b = 2;\na + b",
                "3 // three;",
                "\n\n/* sum */ 1 + 2\n\n// done\n",
                "var v = 3; v"
            })
    void lastExpressionIsTheValue(String cell) throws CellException {
        assertEquals(3, eval(cell));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "var x = 5",
                "var x = 5;",
                "int x; x = 5",
                "1 + 2;",
                "new ArrayList<>(List.of(1)).add(2); // ignored",
                "void nothing() {}\nnothing()",
                "for (int i = 0; i < 3; i++) ;",
                "import java.util.BitSet;",
                "record Point(int x, int y) {}",
                "",
                "// only a comment",
                "null"
            })
    void declarationsAssignmentsAndStatementsShowNothing(String cell) throws CellException {
        assertNull(eval(cell));
    }

    @Test
    void valuesAreObjectsOfTheTestsVirtualMachine() throws CellException {
        shared = new Object();
        assertSame(shared, eval("cs336.notebook.EvaluatorTest.shared"));
        assertSame(String[].class, eval("new String[0]").getClass());
    }

    @Test
    void declarationsAreVisibleInLaterCells() throws CellException {
        eval(
                "record Size(int width, int height) {\n  int area() { return width * height; }\n}\nint twice(int n) { return 2 * n; }");
        assertEquals(24, eval("twice(new Size(3, 4).area())"));
        eval("int twice(int n) { return n + n + 1; }");
        assertEquals(25, eval("twice(new Size(3, 4).area())"));
    }

    @Test
    void statementsMaySpanSeveralLines() throws CellException {
        assertEquals(List.of(2, 4), eval("""
                        var list = List.of(1, 2, 3, 4)
                            .stream()
                            // even ones
                            .filter(i -> i % 2 == 0)
                            .toList();
                        if (list.isEmpty()) {
                            list = null;
                        }
                        else {
                            list = List.copyOf(list);
                        }
                        list"""));
    }

    @Test
    void bothSetsOfImportsAreValid() throws CellException {
        assertEquals("[]", eval("Stream.of().toList().toString()"));
        try (Evaluator portable = new Evaluator(Imports.PORTABLE)) {
            assertEquals(List.of(), portable.eval("new ArrayList<>()", 1));
            assertThrows(CellException.CompilationFailed.class, () -> portable.eval("Stream.of()", 2));
        }
    }

    @Test
    void compilationErrorNamesLineAndShowsCode() {
        var error =
                fails(CellException.CompilationFailed.class, "int good = 1;\n\n// why\n  int bad = good + wrong;\n");
        assertEquals(4, error.line());
        assertEquals(
                List.of(
                        "cell [7], line 4: cannot find symbol",
                        "  symbol: variable wrong",
                        "  if an earlier cell declares it, run that cell first",
                        "      int bad = good + wrong;",
                        "                       ^^^^^"),
                error.report());
        assertEquals("line 4: cannot find symbol", error.getMessage());
    }

    @Test
    void aLongMessageIsBrokenBetweenWords() {
        String message = "an expected size of 1600 but found 6400 ".repeat(6).strip();
        var error = assertThrows(
                CellException.class, () -> evaluator.eval("throw new IllegalStateException(\"" + message + "\");", 7));
        List<String> text = error.report().stream()
                .takeWhile(line -> !line.startsWith("    "))
                .toList();
        assertTrue(
                text.size() > 1 && text.stream().allMatch(line -> line.length() <= JavaKernel.MOST_COLUMNS),
                text.toString());
        assertEquals(
                "cell [7], line 1: java.lang.IllegalStateException: " + message,
                text.stream().map(String::strip).collect(Collectors.joining(" ")));
        String word = "a".repeat(200);
        var unbroken = assertThrows(
                CellException.class, () -> evaluator.eval("throw new IllegalStateException(\"" + word + "\");", 7));
        assertTrue(
                unbroken.report().get(0).endsWith(" " + word), unbroken.report().get(0));
    }

    @Test
    void typeErrorInAMethodNamesItsLine() {
        var error = fails(CellException.CompilationFailed.class, "int f() {\n    int n = 1;\n    return \"no\";\n}");
        assertEquals(3, error.line());
        assertEquals(
                "cell [7], line 3: incompatible types: java.lang.String cannot be converted to int",
                error.report().get(0));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {"shared = 1;#int x = ;|2", "shared = 1;#for (int i = 0; i < 3; i++) {|2", "shared = 1;##foo(|3"})
    void syntaxErrorIsFoundBeforeAnythingRuns(String lines, int line) {
        shared = null;
        String cell = "import static cs336.notebook.EvaluatorTest.shared;\n" + lines.replace('#', '\n');
        var error = fails(CellException.CompilationFailed.class, cell);
        assertEquals(line + 1, error.line(), error.report().toString());
        assertNull(shared);
    }

    @Test
    void missingSemicolonIsLocated() {
        var error = fails(CellException.CompilationFailed.class, "int x = 0;\nint y = 1\nint z = 2;");
        assertEquals(List.of("cell [7], line 2: ';' expected", "    int y = 1", "             ^"), error.report());
    }

    @Test
    void methodWithAnUnknownNameIsAnImmediateError() {
        var error = fails(
                CellException.CompilationFailed.class,
                "int ok() { return 1; }\nint f() {\n    return ok() + missing(2);\n}");
        assertEquals(3, error.line());
        assertEquals(
                List.of(
                        "cell [7], line 3: cannot find symbol: method missing(int)",
                        "  if an earlier cell declares it, run that cell first",
                        "        return ok() + missing(2);"),
                error.report());
    }

    @Test
    void aNameThatNoCellCanDeclareIsNotSoughtInEarlierCells() {
        var error = fails(CellException.CompilationFailed.class, "\"text\".missing()");
        assertEquals(
                List.of("cell [7], line 1: cannot find symbol", "  symbol: method missing()", "    \"text\".missing()"),
                error.report().subList(0, 3));
    }

    @Test
    void methodsOfOneCellMayCallEachOther() throws CellException {
        eval(
                "boolean even(int n) { return n == 0 || odd(n - 1); }\nboolean odd(int n) { return n != 0 && even(n - 1); }");
        assertEquals(true, eval("even(10)"));
    }

    @Test
    void exceptionShowsTheFramesInCells() throws CellException {
        evaluator.eval("\n\n// divides\nint divide(int n) {\n    int unused = 0;\n    return 1 / n;\n}", 3);
        var error = fails(CellException.ExceptionThrown.class, "int n = 0;\nint m = divide(n);\nm");
        assertEquals("ArithmeticException", error.name());
        assertEquals(2, error.line());
        assertEquals(
                List.of(
                        "cell [7], line 2: java.lang.ArithmeticException: / by zero",
                        "    at divide (cell [3], line 6)",
                        "    at cell [7], line 2"),
                error.report());
    }

    @Test
    void exceptionShowsLibraryFramesAndCauses() {
        var error = fails(
                CellException.ExceptionThrown.class,
                "try {\n    Integer.parseInt(\"x\");\n} catch (NumberFormatException e) {\n    throw new IllegalStateException(\"sad\", e);\n}");
        assertEquals(
                "cell [7], line 4: java.lang.IllegalStateException: sad",
                error.report().get(0));
        assertEquals("    at cell [7], line 4", error.report().get(1));
        assertEquals(
                "caused by java.lang.NumberFormatException: For input string: \"x\"",
                error.report().get(2));
        assertTrue(
                error.report().get(3).startsWith("    at java.base/java.lang.NumberFormatException.forInputString("),
                error.report().get(3));
        assertEquals(
                "    at cell [7], line 2", error.report().get(error.report().size() - 1));
        assertTrue(
                error.report().stream().noneMatch(l -> l.contains("jshell") || l.contains("reflect")),
                error.report().toString());
    }

    @Test
    void messagesNameClassesOfCellsAsTheReaderDoes() throws CellException {
        evaluator.eval("enum Colour { RED }", 3);
        var error = fails(CellException.ExceptionThrown.class, "Colour.valueOf(\"BLUE\")");
        assertEquals("No enum constant Colour.BLUE", error.getMessage());
        assertEquals(
                "cell [7], line 1: java.lang.IllegalArgumentException: No enum constant Colour.BLUE",
                error.report().get(0));
    }

    @Test
    void assertionsOfACellAreChecked() {
        var error = fails(CellException.ExceptionThrown.class, "int two = 2;\nassert two < 1 : \"too large\";");
        assertEquals(
                "cell [7], line 2: java.lang.AssertionError: too large",
                error.report().get(0));
        fails(
                CellException.ExceptionThrown.class,
                "class Asserting {\n    int n() {\n        assert false;\n        return 1;\n    }\n}\nnew Asserting().n()");
    }

    @Test
    void variablesThatLoseTheirValuesAreNamed() throws CellException {
        evaluator.eval("class Again { int n = 1; }\nAgain again = new Again();\nvar alsoAgain = new Again();", 3);
        String notice = " has lost its value, because Again, which its declaration uses, was declared again."
                + " Run the cell that declares ";
        assertEquals(
                "again" + notice + "again again.\nalsoAgain" + notice + "alsoAgain again.\n",
                printedError("class Again { int n = 2; }"));
        assertEquals("", printedError("class Again { int n = 3; }\nAgain again = new Again();\nagain.n"));
        assertEquals("", printedError("class Other { int n = 3; }"));
        assertEquals("", printedError("String changed = \"\";\nint changed = 1;"));
    }

    private static String printedError(String cell) throws CellException {
        return printedError(null, cell);
    }

    private static String printedError(String cellId, String cell) throws CellException {
        PrintStream before = System.err;
        var printed = new ByteArrayOutputStream();
        System.setErr(new PrintStream(printed, true, StandardCharsets.UTF_8));
        try {
            evaluator.eval(cell, 7, cellId);
        } finally {
            System.setErr(before);
        }
        return printed.toString(StandardCharsets.UTF_8);
    }

    private static Object rerun(String cellId, String cell) throws CellException {
        return evaluator.eval(cell, 7, cellId);
    }

    @Test
    void aMethodOfARerunCellReplacesThatWithOtherParameterTypes() throws CellException {
        String check = "\nCheck.that(\"a\", () -> timeRatio(3, 2)).is(1.5).toString()";
        assertTrue(rerun("time", "double timeRatio(int a, int b) { return Check.todo(); }" + check)
                .toString()
                .startsWith("○"));
        assertEquals("✓ a: 1.500", rerun("time", "double timeRatio(double a, double b) { return a / b; }" + check));
        assertEquals(0.5, eval("timeRatio(1, 2)"));
        rerun("time", "double timeRatio(int a, int b) { return a / (double) b; }" + check);
        // The recursion must not end in the old method.
        assertEquals(6, rerun("sum", "int sum(int n) { return n == 0 ? 0 : n + sum(n - 1); }\nsum(3)"));
        assertEquals(-1L, rerun("sum", "long sum(long n) { return n == 0 ? -1 : sum((int) n - 1); }\nsum(3)"));
    }

    @Test
    void otherOverloadsStay() throws CellException {
        rerun("mine", "String over(int n) { return \"int\"; }\nString over(long n) { return \"long\"; }");
        rerun("theirs", "String over(short n) { return \"short\"; }");
        eval("String over(byte n) { return \"byte\"; }");
        String all = "over(1) + over(1L) + over((short) 1) + over((byte) 1)";
        assertEquals("intlongshortbyte", eval(all));
        // In another order, and one of them with other code.
        rerun("mine", "String over(long n) { return \"Long\"; }\nString over(int n) { return \"int\"; }");
        assertEquals("intLongshortbyte", eval(all));
        rerun("mine", "String over(long n) { return \"long\"; }");
        assertEquals("longlongshortbyte", eval(all));
        rerun("mine", "String over(short n) { return \"mine\"; }");
        rerun("theirs", "String over(double n) { return \"double\"; }");
        assertEquals("doubledoubleminebyte", eval(all), "a method belongs to the cell that declared it last");
    }

    @Test
    void aRenamedMethodStaysUntilItsNameIsDeclaredAgain() throws CellException {
        rerun("renamed", "int named(int n) { return 1; }");
        rerun("renamed", "int renamed(int n) { return 2; }");
        assertEquals(3, eval("named(0) + renamed(0)"));
        rerun("renamed", "int named(long n) { return 4; }");
        assertEquals(6, eval("named(0) + renamed(0)"));
    }

    @Test
    void aFailedRerunKeepsTheMethods() throws CellException {
        rerun("failing", "int failing(int n) { return 1; }\nint failing(char n) { return 3; }");
        for (String wrong : List.of(
                "int failing(double n) { return n; }",
                "int failing(double n) { return noSuchMethod(); }",
                "int failing(double n) { return 2 }")) {
            assertThrows(CellException.CompilationFailed.class, () -> rerun("failing", wrong), wrong);
            assertEquals(4, eval("failing(1) + failing('a')"), wrong);
        }
        rerun("failing", "int failing(double n) { return 2; }");
        assertEquals(4, eval("failing(1) + failing('a')"));
    }

    @Test
    void usersOfAReplacedMethodCallTheNewOne() throws CellException {
        rerun("used", "int used(int n) { return n / 2; }");
        evaluator.eval("double user() { return used(3); }\ndouble before = used(3);\nvar inferred = used(3);", 3);
        String lost = printedError("used", "double used(double n) { return n / 2; }");
        assertTrue(lost.startsWith("inferred has lost its value, because used, "), lost);
        assertEquals(List.of(1.5, 1.0), eval("List.of(user(), before)"));
    }

    @Test
    void exceptionsBetweenCellsShowTheFramesInCells() throws CellException {
        evaluator.eval("int third(int[] all) {\n    return all[2];\n}", 3);
        Callable<?> later = (Callable<?>)
                evaluator.eval("(java.util.concurrent.Callable<Integer>) () ->\n    third(new int[0])", 4);
        var error = assertThrows(CellException.ExceptionThrown.class, () -> evaluator.run(later));
        assertEquals(
                List.of(
                        "cell [3], line 2: java.lang.ArrayIndexOutOfBoundsException: Index 2 out of bounds for length 0",
                        "    at third (cell [3], line 2)",
                        "    at a lambda (cell [4], line 2)"),
                error.report());
    }

    @Test
    void deepStackTracesAreShortened() {
        var error = fails(CellException.ExceptionThrown.class, "int deep(int n) { return deep(n + 1) + 1; }\ndeep(0)");
        assertEquals("StackOverflowError", error.name());
        assertTrue(error.report().size() < 20, "lines: " + error.report().size());
    }

    @Test
    void namesStayUnambiguousWhenACellImportsAllOfPyTorch() throws CellException {
        try (var another = new Evaluator(Imports.GENEROUS)) {
            another.eval("import org.bytedeco.pytorch.*;", 1);
            assertEquals(
                    "cpu 2",
                    another.eval(
                            "Function<Integer, Integer> next = n -> n + 1;\n"
                                    + "Class<?>[] known = {Future.class, ProcessGroup.class, AdamW.class};\n"
                                    + "Device.cpu() + \" \" + Stream.of(next.apply(0), 3).count()",
                            2));
        }
    }

    @Test
    void messageOfLibtorchHasNoNativeFrames() {
        var error = fails(
                CellException.ExceptionThrown.class,
                "Tensor a = torch.ones(2, 3);\n\nTensor b = torch.ones(2, 4);\na.matmul(b)");
        assertEquals(4, error.line());
        String first = error.report().get(0);
        assertTrue(first.startsWith("cell [7], line 4: java.lang.RuntimeException: mat1 and mat2 shapes"), first);
        assertFalse(
                error.report().toString().contains("frame #"), error.report().toString());
        assertFalse(error.getMessage().contains("frame #"), error.getMessage());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "System.exit(3);",
                "Runnable end = () -> System.exit(3);\nend.run();",
                "class Ends { void now() { long big = 1L << 40; System.exit(3); } }\nnew Ends().now();"
            })
    void exitOfACellIsAnExceptionAndKeepsTheSession(String cell) throws CellException {
        eval("int before = 41;");
        var error = fails(CellException.ExceptionThrown.class, cell);
        assertTrue(error.getMessage().startsWith("System.exit(3) would end the session"), error.getMessage());
        assertEquals(42, eval("before + 1"));
    }

    @Test
    void declarationsBeforeAnErrorAreKept() throws CellException {
        fails(CellException.ExceptionThrown.class, "int kept = 41;\nif (kept > 0) throw new RuntimeException();");
        assertEquals(42, eval("kept + 1"));
    }

    @Test
    void resultsAreNotKeptInMemory() throws Exception {
        List<WeakReference<Object>> results = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            results.add(new WeakReference<>(eval("new byte[64 << 20]")));
        }
        for (WeakReference<Object> result : results) {
            assertCollected(result);
        }
    }

    @Test
    void namesOfResultsAreDropped() throws CellException {
        try (var own = new Evaluator(Imports.GENEROUS)) {
            assertThrows(CellException.ExceptionThrown.class, () -> own.eval("Integer.parseInt(\"x\")", 1)); // $1
            own.eval("new long[10]", 2); // $2
            for (String name : List.of("$1", "$2")) {
                assertThrows(CellException.CompilationFailed.class, () -> own.eval(name, 3), name);
            }
        }
    }

    @Test
    void oldValueOfAVariableDeclaredAgainIsNotKept() throws Exception {
        WeakReference<Object> old = new WeakReference<>(eval("var big = new long[1 << 20];\nbig"));
        assertTrue(old.refersTo(eval("big")));
        Object other = eval("var big = new long[1 << 20];\nbig");
        assertFalse(old.refersTo(other));
        assertCollected(old);
        assertTrue(other == eval("big"));
        eval("String big = \"small\";");
        WeakReference<Object> second = new WeakReference<>(other);
        other = null;
        assertCollected(second);
    }

    private static void assertCollected(WeakReference<?> reference) throws InterruptedException {
        for (int i = 0; i < 50 && !reference.refersTo(null); i++) {
            System.gc();
            Thread.sleep(10);
        }
        assertTrue(reference.refersTo(null), "still in memory");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "int i = 0;\nwhile (true) { i++; }",
                "int i = 0;\nThread.sleep(60_000);",
                "int i = 0;\nsynchronized (this_) { this_.wait(); }",
                "int i = 0;\nwhile (true) try { i++; } catch (Exception e) { }",
                "int i = 0;\nStream.iterate(1, n -> n + 1).filter(n -> n < 0).findFirst();",
                "int i = 0;\nRunnable task = () -> { while (true) { i++; } }; task.run();",
                "int i = 0;\njava.math.BigInteger.TWO.pow(1 << 28).nextProbablePrime();"
            })
    void interruptStopsACell(String cell) throws Exception {
        eval("Object this_ = new Object();");
        // The statement of line 2 signals itself, so that it is running when the interrupt arrives.
        String signalling = cell.replace("\n", "\n{ " + SIGNAL) + " }";
        Thread interrupter = interruptAfterSignal(Duration.ofMillis(300));
        var error = assertTimeoutPreemptively(
                Duration.ofSeconds(60), () -> fails(CellException.Interrupted.class, signalling));
        interrupter.join();
        assertEquals(2, error.line(), error.report().toString());
        assertEquals("interrupted", error.report().get(0));
        assertFalse(
                error.report().toString().contains("$Lambda"), error.report().toString());
        assertEquals(3, eval("1 + 2"));
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 5, 20, 60})
    void interruptDuringCompilationIsNotLost(int milliseconds) throws Exception {
        Thread interrupter = interruptAfterSignal(Duration.ofMillis(milliseconds));
        var error = assertTimeoutPreemptively(
                Duration.ofSeconds(60),
                () -> fails(CellException.Interrupted.class, SIGNAL + "\nwhile (true) { Math.max(1, 2); }"));
        interrupter.join();
        assertEquals("interrupted", error.report().get(0));
        assertTrue(
                error.report().get(1).startsWith("    at cell ["),
                error.report().toString());
        assertEquals(3, eval("1 + 2"));
    }

    @Test
    void interruptBetweenCellsDoesNothing() throws CellException {
        evaluator.interrupt();
        assertEquals(3, eval("1 + 2"));
    }

    @Test
    void interruptEndsTheWholeCell() throws Exception {
        Thread interrupter = interruptAfterSignal(Duration.ofMillis(200));
        fails(
                CellException.Interrupted.class,
                SIGNAL + "try { Thread.sleep(60_000); } catch (InterruptedException e) { }\n"
                        + "cs336.notebook.EvaluatorTest.shared = 2;");
        interrupter.join();
        assertEquals(1, shared);
    }

    /** Cells with wrong, missing and repeated characters have a value or a located error. */
    @Test
    void mutatedCellsHaveAValueOrAnError() {
        List<String> cells = List.of(
                "int fuzzed = 3; // three\nfuzzed + 1",
                "String text = \"a\\tb\";\ntext.length()",
                "record Pair(int a, int b) {\n  int sum() { return a + b; }\n}\nnew Pair(1, 2).sum()",
                "/* comment */ if (1 < 2) {\n    Math.max(1, 2);\n}\nelse { }",
                "int twice(int n) {\n    return 2 * n;\n}\ntwice(4)",
                "var list = List.of(1, 2)\n    .stream().map(n -> n * 2)\n    .toList();",
                "throw new IllegalStateException(\"sad\");");
        var random = new Random(18);
        int failed = 0;
        int tried = AttackCount.times(150);
        for (int i = 0; i < tried; i++) {
            String cell = mutated(cells.get(random.nextInt(cells.size())), random);
            try {
                eval(cell);
            } catch (CellException e) {
                failed++;
                assertFalse(e.report().isEmpty(), cell);
                assertTrue(e.line() <= Math.max(1, cell.lines().count()), e.line() + " in " + cell);
            }
        }
        assertTrue(failed > tried / 3, failed + " failed");
        AttackCount.inputs(tried, "mutated cells");
    }

    private static String mutated(String cell, Random random) {
        var text = new StringBuilder(cell);
        for (int edits = random.nextInt(3); edits >= 0 && text.length() > 0; edits--) {
            int at = random.nextInt(text.length());
            int end = Math.min(text.length(), at + 1 + random.nextInt(3));
            switch (random.nextInt(4)) {
                case 0 -> text.delete(at, end);
                case 1 -> text.insert(at, "{}()[];,\"'\\/*\n\t\0@#é€😀".charAt(random.nextInt(22)));
                case 2 -> text.insert(at, text.substring(at, end));
                default -> text.setLength(Math.max(1, at));
            }
        }
        return text.toString();
    }

    /** Interrupts the evaluator after the given pause, counted from when the cell has executed {@link #SIGNAL}. */
    private static Thread interruptAfterSignal(Duration pause) {
        shared = null;
        var interrupter = new Thread(() -> {
            try {
                while (shared == null) {
                    Thread.sleep(1);
                }
                Thread.sleep(pause.toMillis());
                evaluator.interrupt();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        });
        interrupter.start();
        return interrupter;
    }
}
