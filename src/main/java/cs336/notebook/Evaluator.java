package cs336.notebook;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import jdk.jshell.DeclarationSnippet;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.JShell;
import jdk.jshell.JShellException;
import jdk.jshell.MethodSnippet;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.SourceCodeAnalysis.Completeness;
import jdk.jshell.SourceCodeAnalysis.CompletionInfo;
import jdk.jshell.SourceCodeAnalysis.SnippetWrapper;
import jdk.jshell.UnresolvedReferenceException;
import jdk.jshell.VarSnippet;
import jdk.jshell.execution.DirectExecutionControl;
import jdk.jshell.spi.ExecutionControl;
import jdk.jshell.spi.ExecutionControlProvider;
import jdk.jshell.spi.ExecutionEnv;

/**
 * An evaluator of the cells of one notebook. It uses JShell inside this virtual machine and its class path, so that
 * values are ordinary objects and native libraries are loaded once.
 *
 * <p>{@link #eval} runs one cell at a time on the calling thread; other threads call {@link #interrupt}.
 */
public final class Evaluator implements AutoCloseable {
    private static final Pattern BLANK_OR_COMMENT =
            Pattern.compile("(?:\\s+|//[^\\n]*(?:\\n|$)|/\\*.*?\\*/)*+", Pattern.DOTALL);
    private static final String NATIVE_FRAMES = "Exception raised from ";
    private static final Pattern OUTER_CLASS = Pattern.compile(CellControl.SNIPPET_CLASS + "[.$]");
    private static final String SNIPPET_LOCATION = "location: class"; // JShell omits the name of its class
    private static final int MOST_FRAMES = 12;
    private static final String RUN_FIRST = "  if an earlier cell declares it, run that cell first";

    private final CellControl control = new CellControl();
    private final JShell shell;
    private final SourceCodeAnalysis analysis;
    private final Map<String, SnippetOrigin> originOfSnippet = new HashMap<>();
    private final SortedMap<String, String> lostVariables = new TreeMap<>(); // by what was declared again
    private final Map<String, Snippet> dropped = new HashMap<>(); // by class, for frames of their lambdas
    private final Map<String, List<MethodSnippet>> methodsOfCell = new HashMap<>(); // by the cell's id
    private SnippetOrigin running;
    private volatile boolean interrupted;

    /** The position of a snippet: its cell, and the line in the cell from 1. */
    private record SnippetOrigin(int cell, int line) {
        /** Returns the place of a line of the snippet, which is 1 for the first. */
        String place(int inSnippet) {
            return "cell [" + cell + "], line " + (line + inSnippet - 1);
        }
    }

    /** A part of a cell that JShell evaluates at once, and its offset in the cell. */
    private record CellPart(String source, int offset, Completeness completeness) {}

    /** Creates an evaluator without declarations. */
    public Evaluator(Imports imports) {
        shell = JShell.builder()
                .executionEngine(new InThisVirtualMachine(control), Map.of())
                .build();
        analysis = shell.sourceCodeAnalysis();
        for (String statement : imports.statements()) {
            if (shell.eval(statement).get(0).status() != Snippet.Status.VALID) {
                throw new IllegalStateException("invalid import in Imports: " + statement);
            }
        }
    }

    private record InThisVirtualMachine(DirectExecutionControl control) implements ExecutionControlProvider {
        @Override
        public String name() {
            return "in-this-virtual-machine";
        }

        @Override
        public ExecutionControl generate(ExecutionEnv env, Map<String, String> parameters) {
            return control;
        }
    }

    /** Runs a cell that has no id, like {@link #eval(String, int, String)}. Methods of earlier runs stay. */
    public Object eval(String source, int number) throws CellException {
        return eval(source, number, null);
    }

    /**
     * Runs a cell and returns its value. A method of the cell replaces those of the same name that earlier runs of the
     * cell declared and this run does not: Java would call the old overload if its parameter types fit better.
     *
     * @param source Java source: statements, declarations, imports, expressions, and {@link Magics}
     * @param number the execution count of the cell, which error messages show
     * @param cellId the id of the cell, the same in each run; null if unknown
     * @return the value of the last expression; null if it is null, or if the cell ends with a declaration, an
     *     assignment or a statement (a semicolon turns an expression into a statement)
     * @throws CellException if the cell does not compile, throws, or is interrupted
     */
    Object eval(String source, int number, String cellId) throws CellException {
        interrupted = false;
        control.beginCell();
        String cell = Magics.translate(source, number, analysis, this::isVariable);
        List<CellPart> parts = split(cell);
        refuseSyntaxErrors(cell, number, parts);
        List<Snippet> declared = new ArrayList<>();
        List<MethodSnippet> earlier = List.copyOf(methodsOfCell.getOrDefault(cellId, List.of()));
        Set<String> kept = earlier.isEmpty() ? Set.of() : signatures(parts);
        Object last = null;
        try {
            for (CellPart part : parts) {
                if (interrupted) {
                    throw interruptedBefore(number, lineAt(cell, part.offset));
                }
                last = null; // lets the garbage collector free it while the next part runs
                last = run(cell, number, part, declared);
                dropReplaced(earlier, kept, declared);
            }
        } finally {
            if (cellId != null) {
                methodsOfCell.put(cellId, activeMethods(earlier, declared));
            }
            lostVariables.forEach((name, cause) -> System.err.println(name + " has lost its value, because " + cause
                    + ", which its declaration uses, was declared again. Run the cell that declares " + name
                    + " again."));
            lostVariables.clear();
        }
        refuseUnresolved(cell, number, declared);
        return last;
    }

    /** Ends the cell that another thread is evaluating. Has no effect if there is none. */
    public void interrupt() {
        interrupted = true;
        control.interrupt();
    }

    /**
     * Runs a task between cells, on the calling thread. Other threads end it by {@link #interrupt}.
     *
     * @throws CellException if the task throws or is interrupted
     */
    <T> T run(Callable<T> task) throws CellException {
        interrupted = false;
        control.beginCell();
        try {
            return control.run(task);
        } catch (StopRequest | InterruptedException e) {
            throw new CellException.Interrupted(0, List.of("interrupted"));
        } catch (Exception | Error e) {
            throw thrown(e);
        }
    }

    /** Returns the failure of a task that threw an exception, whose frames JShell has not translated. */
    CellException thrown(Throwable exception) {
        Optional<String> where = Arrays.stream(exception.getStackTrace())
                .flatMap(frame -> nameOf(frame).stream())
                .findFirst();
        String message = exception.getMessage() == null ? "" : cleaned(exception.getMessage());
        return new CellException.ExceptionThrown(
                className(exception),
                message,
                0,
                report(exception, where.map(place -> place + ": ").orElse("")));
    }

    private boolean isVariable(String name) {
        return shell.variables().anyMatch(variable -> variable.name().equals(name));
    }

    private List<CellPart> split(String cell) {
        List<CellPart> parts = new ArrayList<>();
        int offset = 0;
        while (offset < cell.length()) {
            offset = afterBlanks(cell, offset);
            String rest = cell.substring(offset);
            if (rest.isEmpty()) {
                break;
            }
            CompletionInfo info = analysis.analyzeCompletion(rest);
            if (info.completeness() == Completeness.EMPTY) {
                break;
            }
            boolean whole = !info.completeness().isComplete() || info.source() == null;
            parts.add(new CellPart(whole ? rest : info.source(), offset, info.completeness()));
            if (whole || info.remaining().isEmpty()) {
                break;
            }
            offset = cell.length() - info.remaining().length();
        }
        return parts;
    }

    private static int afterBlanks(String cell, int offset) {
        Matcher blank = BLANK_OR_COMMENT.matcher(cell).region(offset, cell.length());
        return blank.lookingAt() ? blank.end() : offset;
    }

    /** Reports a syntax error in the last part before any part runs. */
    private void refuseSyntaxErrors(String cell, int number, List<CellPart> parts) throws CellException {
        if (parts.isEmpty()) {
            return;
        }
        CellPart last = parts.get(parts.size() - 1);
        boolean doubtful = switch (last.completeness) {
            case UNKNOWN, DEFINITELY_INCOMPLETE -> true;
            case COMPLETE, COMPLETE_WITH_SEMI, CONSIDERED_INCOMPLETE, EMPTY -> false;
        };
        if (doubtful
                && analysis.sourceToSnippets(last.source).stream().anyMatch(s -> s.kind() == Snippet.Kind.ERRONEOUS)) {
            for (SnippetEvent event : shell.eval(last.source)) {
                if (event.status() == Snippet.Status.REJECTED) {
                    throw rejected(cell, number, last, event.snippet());
                }
            }
        }
    }

    private Set<String> signatures(List<CellPart> parts) {
        return parts.stream()
                .flatMap(part -> methods(analysis.sourceToSnippets(part.source)))
                .map(Evaluator::signature)
                .collect(Collectors.toSet());
    }

    private static Stream<MethodSnippet> methods(List<? extends Snippet> snippets) {
        return snippets.stream().filter(MethodSnippet.class::isInstance).map(MethodSnippet.class::cast);
    }

    private static String signature(MethodSnippet method) {
        return method.name() + "(" + method.parameterTypes() + ")";
    }

    /** Drops methods of earlier runs if a valid method of this run has the name, except those with these signatures. */
    private void dropReplaced(List<MethodSnippet> earlier, Set<String> kept, List<Snippet> declared) {
        for (MethodSnippet old : earlier) {
            boolean isReplaced = !kept.contains(signature(old))
                    && methods(declared)
                            .anyMatch(method ->
                                    method.name().equals(old.name()) && shell.status(method) == Snippet.Status.VALID);
            if (isReplaced && shell.status(old).isActive()) {
                drop(old).forEach(this::noteLostVariable);
            }
        }
    }

    private List<MethodSnippet> activeMethods(List<MethodSnippet> earlier, List<Snippet> declared) {
        return Stream.concat(earlier.stream(), methods(declared))
                .filter(method -> shell.status(method).isActive())
                .distinct()
                .toList();
    }

    private Object run(String cell, int number, CellPart part, List<Snippet> declared) throws CellException {
        Object value = null;
        int line = lineAt(cell, part.offset);
        running = new SnippetOrigin(number, line);
        for (SnippetEvent event : shell.eval(part.source)) {
            Snippet snippet = event.snippet();
            if (event.causeSnippet() != null) {
                noteLostVariable(event);
                continue;
            }
            if (snippet instanceof VarSnippet variable) {
                lostVariables.remove(variable.name());
            }
            originOfSnippet.put(snippet.id(), running);
            if (event.status() == Snippet.Status.REJECTED) {
                throw rejected(cell, number, part, snippet);
            }
            if (event.exception() != null) {
                CellException thrown = thrown(cell, number, line, event.exception());
                dropResult(snippet);
                throw thrown;
            }
            if (snippet instanceof DeclarationSnippet) {
                declared.add(snippet);
            }
            value = control.takeValue();
            if (dropResult(snippet)) {
                declared.remove(snippet);
            }
            if (!shows(snippet) || endsAsStatement(part.source)) {
                value = null;
            }
        }
        return value;
    }

    private void noteLostVariable(SnippetEvent event) {
        if (event.snippet() instanceof VarSnippet variable
                && event.isSignatureChange()
                && event.status().isActive()
                && event.causeSnippet() instanceof DeclarationSnippet cause) {
            lostVariables.put(variable.name(), cause.name());
        }
    }

    /** Drops the variable, such as {@code $1}, that JShell declares for the result of an expression. */
    private boolean dropResult(Snippet snippet) {
        boolean isResult = snippet.subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND;
        if (isResult) {
            drop(snippet);
        }
        return isResult;
    }

    private List<SnippetEvent> drop(Snippet snippet) {
        wrapper(snippet).ifPresent(wrapper -> dropped.put(wrapper.fullClassName(), snippet));
        return shell.drop(snippet);
    }

    private static boolean shows(Snippet snippet) {
        return switch (snippet.subKind()) {
            case TEMP_VAR_EXPRESSION_SUBKIND, VAR_VALUE_SUBKIND, OTHER_EXPRESSION_SUBKIND -> true;
            default -> false;
        };
    }

    /**
     * Returns whether the source ends with a semicolon, ignoring comments and strings: an operator appended to
     * {@code x} continues the expression, but appended to {@code x;} it does not.
     */
    private boolean endsAsStatement(String source) {
        return analysis.analyzeCompletion(source + "\n+").completeness().isComplete();
    }

    private CellException rejected(String cell, int number, CellPart part, Snippet snippet) {
        List<Diag> errors = shell.diagnostics(snippet).filter(Diag::isError).toList();
        if (errors.isEmpty()) {
            int line = lineAt(cell, part.offset);
            return compilationFailed(number, line, "not valid Java", List.of(lineOf(cell, line)));
        }
        Diag error = errors.get(0);
        int position = (int) Math.max(0, Math.min(error.getStartPosition(), part.source.length()));
        int end = (int) Math.max(position, Math.min(error.getEndPosition(), part.source.length()));
        int line = lineAt(cell, part.offset + position);
        List<String> message =
                new ArrayList<>(error.getMessage(Locale.ENGLISH).lines().toList());
        String headline = message.remove(0);
        List<String> details = new ArrayList<>();
        for (String more : message) {
            String detail = more.strip().replaceAll("\\s+", " ");
            if (!detail.startsWith("location:")) {
                details.add("  " + detail);
            } else if (detail.equals(SNIPPET_LOCATION)) {
                details.add(RUN_FIRST);
            }
        }
        String code = lineOf(cell, line);
        int column = columnAt(cell, part.offset + position);
        details.add("    " + code);
        int width = Math.max(1, Math.min(end - position, code.length() - column));
        details.add("    " + code.substring(0, Math.min(column, code.length())).replaceAll("[^\\t]", " ")
                + "^".repeat(width));
        return compilationFailed(number, line, headline, details);
    }

    private void refuseUnresolved(String cell, int number, List<Snippet> declared) throws CellException {
        for (Snippet snippet : declared) {
            Snippet.Status status = shell.status(snippet);
            if (status != Snippet.Status.RECOVERABLE_DEFINED && status != Snippet.Status.RECOVERABLE_NOT_DEFINED) {
                continue;
            }
            int from = originOfSnippet.get(snippet.id()).line;
            List<String> missing =
                    shell.unresolvedDependencies((DeclarationSnippet) snippet).toList();
            List<String> errors = missing.isEmpty()
                    ? shell.diagnostics(snippet)
                            .map(d -> d.getMessage(Locale.ENGLISH)
                                    .lines()
                                    .findFirst()
                                    .orElse(""))
                            .toList()
                    : missing.stream()
                            .map(name -> "cannot find symbol: " + name)
                            .toList();
            int line = missing.isEmpty() ? from : lineNaming(cell, from, missing.get(0));
            String code = "    " + lineOf(cell, line);
            throw compilationFailed(
                    number,
                    line,
                    errors.isEmpty() ? "not valid Java" : errors.get(0),
                    missing.isEmpty() ? List.of(code) : List.of(RUN_FIRST, code));
        }
    }

    /** Returns the first line from {@code from} on that contains a missing name, such as "method area(int)". */
    private static int lineNaming(String cell, int from, String missing) {
        String name = missing.replaceAll("^\\w+ |\\(.*", "");
        Pattern word = Pattern.compile("\\b" + Pattern.quote(name) + "\\b");
        List<String> lines = cell.lines().toList();
        for (int line = from; line <= lines.size(); line++) {
            if (word.matcher(lines.get(line - 1)).find()) {
                return line;
            }
        }
        return from;
    }

    private static CellException compilationFailed(int number, int line, String headline, List<String> details) {
        List<String> report = new ArrayList<>();
        report.add("cell [" + number + "], line " + line + ": " + headline);
        report.addAll(details);
        return new CellException.CompilationFailed("line " + line + ": " + headline, line, report);
    }

    private static CellException interruptedBefore(int number, int line) {
        return new CellException.Interrupted(
                line, List.of("interrupted", "    at cell [" + number + "], line " + line));
    }

    private CellException thrown(String cell, int number, int partLine, JShellException exception) {
        if (exception instanceof UnresolvedReferenceException unresolved) {
            List<Snippet> culprit = List.of(unresolved.getSnippet());
            try {
                refuseUnresolved(cell, number, culprit);
            } catch (CellException e) {
                return e;
            }
        }
        int line = 0;
        for (StackTraceElement frame : exception.getStackTrace()) {
            SnippetOrigin origin = originOf(frame);
            if (origin != null && origin.cell == number) {
                line = origin.line + frame.getLineNumber() - 1;
                break;
            }
        }
        if (interrupted && line == 0) {
            return interruptedBefore(number, partLine);
        }
        if (interrupted) {
            List<String> report = new ArrayList<>();
            report.add("interrupted");
            frames(exception).stream().filter(frame -> frame.contains("cell [")).forEach(report::add);
            return new CellException.Interrupted(line, report);
        }
        String where = line == 0 ? "" : "cell [" + number + "], line " + line + ": ";
        String message = exception.getMessage() == null ? "" : cleaned(exception.getMessage());
        return new CellException.ExceptionThrown(className(exception), message, line, report(exception, where));
    }

    private List<String> report(Throwable exception, String where) {
        List<String> report = new ArrayList<>();
        for (Throwable cause = exception; cause != null; cause = cause.getCause()) {
            report.add((cause == exception ? where : "caused by ") + describe(cause));
            report.addAll(frames(cause));
        }
        return report;
    }

    private static String className(Throwable exception) {
        return exception instanceof EvalException thrown
                ? thrown.getExceptionClassName()
                : exception.getClass().getName();
    }

    private static String describe(Throwable exception) {
        String name = cleaned(className(exception));
        return exception.getMessage() == null ? name : name + ": " + cleaned(exception.getMessage());
    }

    /**
     * Returns a message without the C++ frames that libtorch appends, and without the classes in which JShell nests
     * those of cells.
     */
    private static String cleaned(String message) {
        int frames = message.indexOf(NATIVE_FRAMES);
        String ours = frames < 0 ? message : message.substring(0, frames).stripTrailing();
        return OUTER_CLASS.matcher(ours).replaceAll("");
    }

    /** Returns the frames down to the cell. The frames below belong to JShell and the kernel. */
    private List<String> frames(Throwable exception) {
        List<String> frames = new ArrayList<>();
        Map<StackTraceElement, Optional<String>> known = new HashMap<>(); // of deep recursions
        int keep = 0;
        for (StackTraceElement frame : exception.getStackTrace()) {
            if (frame.getClassName().contains("$Lambda")) {
                continue; // calls the lambda, whose own frame precedes
            }
            SnippetOrigin origin = originOf(frame);
            String where = origin != null
                    ? origin.place(frame.getLineNumber())
                    : known.computeIfAbsent(frame, this::nameOf).orElse("");
            if (where.isEmpty()) {
                frames.add("    at " + frame);
            } else {
                String method = frame.getMethodName().startsWith("lambda$")
                        ? "a lambda"
                        : frame.getMethodName().replace("do_it$", "");
                String type = frame.getClassName().replaceFirst("^" + CellControl.SNIPPET_CLASS + "[$]?", "");
                String name = type.isEmpty() ? method : type + "." + method;
                frames.add("    at " + (name.isEmpty() ? where : name + " (" + where + ")"));
                keep = frames.size();
            }
        }
        List<String> own = keep == 0 ? frames : frames.subList(0, keep);
        if (own.size() <= MOST_FRAMES) {
            return own;
        }
        int half = MOST_FRAMES / 2;
        List<String> shortened = new ArrayList<>(own.subList(0, half));
        shortened.add("    … " + (own.size() - 2 * half) + " more");
        shortened.addAll(own.subList(own.size() - half, own.size()));
        return shortened;
    }

    /** Returns the cell and the line of a frame that is not translated by JShell; empty if it is not in a cell. */
    Optional<String> nameOf(StackTraceElement frame) {
        Matcher generated = CellControl.SNIPPET_CLASS.matcher(frame.getClassName());
        if (!generated.lookingAt()) {
            return Optional.empty();
        }
        return shell.snippets()
                .filter(snippet -> wrapper(snippet)
                        .map(w -> w.fullClassName().equals(generated.group()))
                        .orElse(false))
                .findFirst()
                .or(() -> Optional.ofNullable(dropped.get(generated.group())))
                .map(snippet -> {
                    SnippetOrigin origin = originOfSnippet.getOrDefault(snippet.id(), running);
                    SnippetWrapper wrapper = wrapper(snippet).orElseThrow();
                    int end = endOfLine(wrapper.wrapped(), frame.getLineNumber());
                    return origin.place(lineAt(snippet.source(), wrapper.wrappedToSourcePosition(end)));
                })
                .or(() -> Optional.of("a cell that ran before"));
    }

    private Optional<SnippetWrapper> wrapper(Snippet snippet) {
        return Optional.ofNullable(analysis.wrapper(snippet));
    }

    private static int endOfLine(String text, int line) {
        int end = text.indexOf('\n');
        for (int i = 1; i < line; i++) {
            end = text.indexOf('\n', end + 1);
        }
        return end < 0 ? text.length() : end;
    }

    private SnippetOrigin originOf(StackTraceElement frame) {
        String file = frame.getFileName();
        return file != null && file.startsWith("#") ? originOfSnippet.get(file.substring(1)) : null;
    }

    private static int lineAt(String cell, int offset) {
        return 1
                + (int) cell.substring(0, Math.min(offset, cell.length()))
                        .chars()
                        .filter(c -> c == '\n')
                        .count();
    }

    private static int columnAt(String cell, int offset) {
        return offset - 1 - cell.lastIndexOf('\n', offset - 1);
    }

    private static String lineOf(String cell, int line) {
        return cell.lines().skip(line - 1L).findFirst().orElse("");
    }

    /** Returns JShell's source analysis, for completion and inspection. */
    SourceCodeAnalysis analysis() {
        return analysis;
    }

    /** Adds a jar or a folder of classes to the class path of cells. */
    public void addToClasspath(String path) {
        shell.addToClasspath(path);
    }

    /** Closes the shell. Values that only its variables referenced become unreachable. */
    @Override
    public void close() {
        shell.close();
    }
}
