package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.units.PretendedLoad;
import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import io.github.spencerpark.jupyter.kernel.display.mime.MIMEType;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class MagicsTest {
    private static final StringBuffer PRINTED = new StringBuffer();
    private static JavaKernel kernel;
    private static PretendedLoad load;

    private static final class Printed implements FrontEnd {
        @Override
        public InputStream input() {
            return InputStream.nullInputStream();
        }

        @Override
        public void print(CellStream stream, String text) {
            PRINTED.append(text);
        }

        @Override
        public void display(DisplayData data) {}

        @Override
        public void updateDisplay(String id, DisplayData data) {}
    }

    @BeforeAll
    static void open() {
        kernel = new JavaKernel(Imports.PORTABLE, new Printed());
        load = PretendedLoad.idle();
    }

    @AfterAll
    static void close() {
        load.close();
        kernel.close();
    }

    /** Runs a cell and returns its value as text, and what it printed with times replaced by T. */
    private static Map.Entry<String, String> run(String cell) throws CellException {
        PRINTED.setLength(0);
        DisplayData value = kernel.eval(cell, 7);
        String printed = PRINTED.toString().replaceAll("[\\d.]+(e[+-]\\d+)? m?s", "T");
        return Map.entry(value == null ? "" : (String) value.getData(MIMEType.TEXT_PLAIN), printed);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "%%time#int n = 6;#n + 1|7|wall time T, CPU time T$",
                "%time 3 + 4|7|wall time T, CPU time T$",
                "%time int a = 3#System.out.println(1);#a|3|wall time T, CPU time T$1$",
                "%time for (int i = 0; i < 2; i++) {#    System.out.println(i);#}#System.out.println(2);#8|8|0$1$wall time T, CPU time T$2$",
                "// first#!echo a; echo \"b\"|''|a$b$",
                "boolean f = true;#!f|false|''",
                "!new int[] {1}.equals(null)|true|''",
                "!List.of().isEmpty()|false|''",
                "int m = 7#    %4;#m|3|''",
                "boolean g = 2 > 1;#g ?#1 : 2|1|''",
                "/*#int c = 3;#%timeit c#!rm /* it's old;#*/#!echo c|''|c$",
                "/* c */ int d = 7#    %4;#d|3|''",
                "/* c; */#%time 5|5|wall time T, CPU time T$",
                "String t = \"\"\"#  x;#  %time#  \"\"\";#t.strip()|x;$%time|''",
            })
    void linesThatAreNotJava(String cell, String value, String printed) throws CellException {
        assertEquals(Map.entry(value.replace('$', '\n'), printed.replace('$', '\n')), run(cell.replace('#', '\n')));
    }

    @Test
    void compilingIsNotTimed() throws CellException {
        var cell = new StringBuilder("%%time\n");
        for (int i = 0; i < 30; i++) {
            cell.append("int n" + i + " = " + i + ";\n");
        }
        long start = System.nanoTime();
        run(cell.toString());
        double elapsed = (System.nanoTime() - start) / 1e6;
        Matcher wall =
                Pattern.compile("wall time ([\\d.e+-]+) ms, CPU time .*\n").matcher(PRINTED);
        assertTrue(wall.matches(), PRINTED.toString());
        double timed = Double.parseDouble(wall.group(1));
        assertTrue(timed < elapsed / 4, timed + " of " + elapsed + " ms");
    }

    @Test
    void timeIncludesAllPartsOfTheCell() throws CellException {
        run("%%time\nThread.sleep(60);\nint slept = 1;\nThread.sleep(60);");
        Matcher wall =
                Pattern.compile("wall time ([\\d.e+-]+) ms, CPU time .*\n").matcher(PRINTED);
        assertTrue(wall.matches() && Double.parseDouble(wall.group(1)) >= 120, PRINTED.toString());
    }

    @Test
    void timeOfACellThatFailsIsShownBelowThatCell() throws CellException {
        assertThrows(CellException.ExceptionThrown.class, () -> run("%%time\nthrow new IllegalStateException();"));
        assertEquals("wall time T, CPU time T\n", PRINTED.toString().replaceAll("[\\d.]+(e[+-]\\d+)? m?s", "T"));
        assertEquals("", run("1").getValue());
    }

    @Test
    void aCellWhoseTimesIncludeWaitingForACoreSaysSoOnce() throws CellException {
        String warning =
                "The host is busy (load average 9.5 on 4 cores): the following times include waiting for a core.\n";
        String stopwatch =
                "cs336.bench.Stopwatch.on(cs336.torch.Device.cpu()).warmup(0).steps(1).time(\"n\", () -> {});\n";
        try (var busy = PretendedLoad.busy()) {
            assertEquals(warning, run(stopwatch + stopwatch + "1").getValue());
            assertEquals(
                    warning + "wall time T, CPU time T\n",
                    run(stopwatch + "%time 2").getValue());
            assertEquals("", run("3").getValue());
        }
        assertEquals("", run(stopwatch + "4").getValue());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "int x = 1;#%matplotlib inline|line 2: the magic %matplotlib does not exist here; figures are shown without it",
                "%%nothing|line 1: the magic %%nothing does not exist here; available are %time, %%time, %classpath and !COMMAND",
                "%time|line 1: %time needs a statement",
                "%classpath|line 1: %classpath needs a jar or a folder",
                "int x = 1;#?Tensor|line 2: \"?Tensor\" is not Java; Shift-Tab on a name shows its documentation",
                "torch.randn??|line 1: \"torch.randn??\" is not Java; Shift-Tab on a name shows its documentation"
            })
    void unknownMagicsNameTheAlternative(String cell, String message) {
        var error = assertThrows(CellException.CompilationFailed.class, () -> run(cell.replace('#', '\n')));
        assertEquals(message, error.getMessage());
    }

    @Test
    void classesOfAnAddedFolderCanBeUsed(@TempDir Path folder) throws Exception {
        Path source =
                Files.writeString(folder.resolve("AddedClass.java"), "public class AddedClass { public int n = 5; }");
        assertEquals(
                0,
                ToolProvider.getSystemJavaCompiler().run(null, null, null, "-d", folder.toString(), source.toString()));
        assertEquals(
                "5",
                run("%classpath " + folder + "\nClass<?> added = Class.forName(\"AddedClass\");\n"
                                + "added.getField(\"n\").get(added.getConstructor().newInstance())")
                        .getKey());
    }

    @Test
    @Timeout(20)
    void interruptEndsACommandAndItsProcesses() throws Exception {
        var failure = new AtomicReference<Throwable>();
        var cell = new Thread(() -> {
            try {
                Magics.shell("echo started; sleep 336; echo ended");
            } catch (InterruptedException | IOException e) {
                failure.set(e);
            }
        });
        cell.start();
        Predicate<ProcessHandle> sleeps =
                process -> process.info().commandLine().orElse("").endsWith("sleep 336");
        while (ProcessHandle.current().descendants().noneMatch(sleeps)) {
            Thread.sleep(10);
        }
        cell.interrupt();
        cell.join();
        assertInstanceOf(InterruptedException.class, failure.get());
        while (ProcessHandle.allProcesses().anyMatch(sleeps)) {
            Thread.sleep(10);
        }
    }

    @Test
    @Timeout(20)
    void commandInTheBackgroundDoesNotHoldUpTheCell() throws CellException {
        assertEquals("started\n", run("!sleep 337 & echo started").getValue());
        ProcessHandle.allProcesses()
                .filter(process -> process.info().commandLine().orElse("").endsWith("sleep 337"))
                .forEach(ProcessHandle::destroy);
    }

    @Test
    void failedCommandAndMissingFileAreErrors() {
        var error = assertThrows(CellException.ExceptionThrown.class, () -> run("1;\n!exit 3"));
        assertEquals("the command ended with exit code 3: exit 3", error.getMessage());
        assertEquals(2, error.line());
        var missing = assertThrows(CellException.ExceptionThrown.class, () -> run("%classpath no/such.jar"));
        assertTrue(missing.getMessage().contains("no/such.jar, which does not exist"), missing.getMessage());
    }
}
