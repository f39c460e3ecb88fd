package cs336.notebook;

import cs336.units.HostLoad;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.SourceCodeAnalysis.CompletionInfo;

/**
 * A translator of the lines of a cell that are not Java: {@code %time STATEMENT}, {@code %%time}, {@code %classpath
 * FILE} and {@code !COMMAND}, as in IPython and IJava. They become calls of this class, each on its line.
 */
public final class Magics {
    private static final Pattern MAGIC = Pattern.compile("(%%?)([a-zA-Z]\\w*)\\s*(.*)");
    private static final Pattern COMMAND = Pattern.compile("!\\s*([\\w~./-]+)(.*)");
    private static final Pattern HELP = Pattern.compile("\\?{1,2}\\s*[\\w.]+|[\\w.]+\\s*\\?{1,2}");
    private static final String CALL = "cs336.notebook.Magics.";
    private static final double NANOS = 1e9;
    private static final double MILLIS = 1e3;
    private static final int BUFFER = 8192;
    private static final int POLL_MS = 10;

    /** The alternatives to magics of other kernels. */
    private static final Map<String, String> INSTEAD = Map.ofEntries(
            Map.entry("timeit", "use %time, or Benchmark and Stopwatch, which warm up and repeat"),
            Map.entry("matplotlib", "figures are shown without it"),
            Map.entry("pip", "add a library with %classpath FILE.jar"),
            Map.entry("conda", "add a library with %classpath FILE.jar"),
            Map.entry("maven", "add a library with %classpath FILE.jar"),
            Map.entry("loadFromPOM", "add a library with %classpath FILE.jar"),
            Map.entry("jars", "add a library with %classpath FILE.jar"),
            Map.entry("env", "use System.getenv()"),
            Map.entry("cd", "use paths such as Project.path(\"data\")"),
            Map.entry("bash", "write ! before each command"),
            Map.entry("sh", "write ! before each command"),
            Map.entry("writefile", "use Files.writeString"),
            Map.entry("load", "use Files.readString"),
            Map.entry("who", "write the name of a variable in a cell to see its value"),
            Map.entry("debug", "write the names of variables in a cell to see their values"));

    private static long startNanos;
    private static long startCpu;
    private static long wallTime; // of the parts that have ended
    private static long cpuTime;
    private static boolean timing;
    private static boolean running;

    private Magics() {}

    /**
     * Translates the lines of a cell that are not Java.
     *
     * @param isVariable whether a name is a variable, so that {@code !name} is an expression
     * @throws CellException.CompilationFailed if a magic is unknown or incomplete
     */
    static String translate(String cell, int number, SourceCodeAnalysis analysis, Predicate<String> isVariable)
            throws CellException {
        if (!cell.contains("%") && !cell.contains("!") && !cell.contains("?")) {
            return cell;
        }
        Predicate<String> isKnown = name -> isVariable.test(name)
                || Pattern.compile("\\b" + Pattern.quote(name) + "\\s*=")
                        .matcher(cell)
                        .find();
        boolean statementStarts = true;
        boolean inTextBlock = false;
        boolean inComment = false;
        String[] lines = cell.split("\n", -1);
        for (int i = 0; i < lines.length; i++) {
            String line = lines[i].strip();
            inComment |= !inTextBlock && line.startsWith("/*");
            if (inComment) {
                inComment = !line.contains("*/");
                if (inComment || line.endsWith("*/")) {
                    continue;
                }
            }
            if (statementStarts && !inTextBlock) {
                String java = translate(lines, i, new Place(number, i + 1), analysis, isKnown);
                line = java.equals(lines[i]) ? line : line + ";";
                lines[i] = java;
            }
            inTextBlock ^= (lines[i].split("\"\"\"", -1).length - 1) % 2 == 1;
            if (!line.isEmpty() && !line.startsWith("//")) {
                statementStarts = line.matches("(?s).*(;|}|\\*/)(\\s*//.*)?");
            }
        }
        return String.join("\n", lines);
    }

    /** The position of a magic: its cell, and the line in the cell from 1. */
    private record Place(int cell, int line) {
        CellException error(String reason) {
            return new CellException.CompilationFailed(
                    "line " + line + ": " + reason, line, List.of("cell [" + cell + "], line " + line + ": " + reason));
        }
    }

    private static String translate(
            String[] lines, int i, Place place, SourceCodeAnalysis analysis, Predicate<String> isVariable)
            throws CellException {
        String line = lines[i].strip();
        Matcher command = COMMAND.matcher(line);
        if (command.matches()) {
            String name = command.group(1).replaceFirst("[./].*", "");
            boolean isJava = command.group(2).startsWith("(") || name.equals("new") || isVariable.test(name);
            return isJava
                    ? lines[i]
                    : CALL + "shell(" + literal(line.substring(1).strip()) + ");";
        }
        if (i == lines.length - 1 && HELP.matcher(line).matches()) {
            throw place.error("\"" + line + "\" is not Java; Shift-Tab on a name shows its documentation");
        }
        Matcher magic = MAGIC.matcher(line);
        if (!magic.matches()) {
            return lines[i];
        }
        String name = magic.group(2);
        String rest = magic.group(3);
        boolean isCell = magic.group(1).length() == 2;
        if (name.equals("time") && isCell) {
            return CALL + "start(); " + rest;
        }
        if (name.equals("time") && !rest.isEmpty()) {
            return CALL + "start(); " + stopAfter(rest, lines, i, analysis);
        }
        if (name.equals("classpath") && !isCell && !rest.isEmpty()) {
            return CALL + "classpath(" + literal(rest) + ");";
        }
        if (name.equals("time") || name.equals("classpath")) {
            throw place.error("%" + name + " needs " + (name.equals("time") ? "a statement" : "a jar or a folder"));
        }
        String instead = INSTEAD.getOrDefault(name, "available are %time, %%time, %classpath and !COMMAND");
        throw place.error("the magic " + magic.group(1) + name + " does not exist here; " + instead);
    }

    /**
     * Inserts the end of the measurement into the line after a timed statement, unless the cell ends with it and shows
     * its value.
     *
     * @return the statement, ended by a semicolon if another line follows
     */
    private static String stopAfter(String statement, String[] lines, int i, SourceCodeAnalysis analysis) {
        String below = String.join("\n", List.of(lines).subList(i + 1, lines.length));
        if (below.isBlank()) {
            return statement;
        }
        String source = statement + "\n" + below;
        CompletionInfo info = analysis.analyzeCompletion(statement);
        if (info.completeness().isComplete() && info.remaining().isBlank()) {
            lines[i + 1] = CALL + "stop(); " + lines[i + 1];
            return statement.contains("//") || statement.matches(".*[;}]") ? statement : statement + ";";
        }
        info = analysis.analyzeCompletion(source);
        if (!info.completeness().isComplete() || info.remaining().isBlank()) {
            return statement;
        }
        String timed =
                source.substring(0, source.length() - info.remaining().length()).stripTrailing();
        int next = i + 1 + (int) timed.chars().filter(c -> c == '\n').count();
        if (next < lines.length) {
            lines[next] = CALL + "stop(); " + lines[next];
        }
        return statement;
    }

    private static String literal(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    /** Starts to measure the time of the parts of a cell, without that of compiling them. */
    public static void start() {
        HostLoad.check();
        timing = true;
        wallTime = 0;
        cpuTime = 0;
        resume();
    }

    /** Continues to measure, when a compiled part of a cell starts. Has no effect without {@link #start}. */
    static void resume() {
        if (timing) {
            running = true;
            startCpu = cpuNanos();
            startNanos = System.nanoTime();
        }
    }

    /** Interrupts measuring, when a part of a cell has ended. */
    static void pause() {
        if (running) {
            running = false;
            wallTime += System.nanoTime() - startNanos;
            cpuTime += cpuNanos() - startCpu;
        }
    }

    /** Prints the measured wall time and CPU time. Has no effect without {@link #start}. */
    public static void stop() {
        if (timing) {
            pause();
            timing = false;
            System.out.println("wall time " + time(wallTime / NANOS) + ", CPU time " + time(cpuTime / NANOS));
        }
    }

    private static long cpuNanos() {
        return ManagementFactory.getOperatingSystemMXBean() instanceof com.sun.management.OperatingSystemMXBean host
                ? host.getProcessCpuTime()
                : 0;
    }

    private static String time(double seconds) {
        return seconds < 1
                ? String.format(Locale.ROOT, "%.3g ms", seconds * MILLIS)
                : String.format(Locale.ROOT, "%,.2f s", seconds);
    }

    /**
     * Adds a jar or a folder of classes to the class path of cells, for {@code %classpath}.
     *
     * @throws IllegalArgumentException if it does not exist
     */
    public static void classpath(String file) {
        if (!new File(file).exists()) {
            throw new IllegalArgumentException("%classpath names " + file + ", which does not exist");
        }
        JavaKernel.current().addToClasspath(file);
    }

    /**
     * Runs a command of the shell and prints its output, for {@code !COMMAND}. An interrupt ends its processes.
     *
     * @throws IllegalStateException if the command ends with another exit code than 0
     */
    public static void shell(String command) throws IOException, InterruptedException {
        Process process = new ProcessBuilder("sh", "-c", command)
                .redirectErrorStream(true)
                .redirectInput(new File("/dev/null"))
                .start();
        try (var output = new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8)) {
            var text = new char[BUFFER];
            boolean isLast;
            do {
                isLast = !process.isAlive();
                while (output.ready()) {
                    System.out.print(new String(text, 0, Math.max(0, output.read(text))));
                }
                if (!isLast) {
                    // A read from a pipe could not be interrupted, and processes in the background keep the pipe open.
                    Thread.sleep(POLL_MS);
                }
            } while (!isLast);
            int code = process.exitValue();
            if (code != 0) {
                throw new IllegalStateException("the command ended with exit code " + code + ": " + command);
            }
        } finally {
            process.descendants().forEach(ProcessHandle::destroy);
            process.destroy();
        }
    }

    /**
     * Replaces {@link System#exit} in cells, which would end the session with all its variables.
     *
     * @throws IllegalStateException always
     */
    public static void exit(int code) {
        throw new IllegalStateException(
                "System.exit(" + code + ") would end the session; to stop a cell here, throw an exception");
    }
}
