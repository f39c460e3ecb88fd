package cs336.notebook;

import com.google.gson.JsonParseException;
import cs336.bench.Project;
import cs336.compile.trace.SourceLine;
import cs336.notebook.widgets.WidgetComms;
import cs336.notebook.widgets.WidgetHost;
import cs336.torch.ProcessEnd;
import cs336.units.HostLoad;
import cs336.units.Progress;
import io.github.spencerpark.jupyter.kernel.BaseKernel;
import io.github.spencerpark.jupyter.kernel.KernelConnectionProperties;
import io.github.spencerpark.jupyter.kernel.LanguageInfo;
import io.github.spencerpark.jupyter.kernel.ReplacementOptions;
import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import io.github.spencerpark.jupyter.messages.publish.PublishDisplayData;
import io.github.spencerpark.jupyter.messages.publish.PublishStream;
import io.github.spencerpark.jupyter.messages.publish.PublishUpdateDisplayData;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.zeromq.ZMQException;
import zmq.ZError;

/**
 * A Jupyter kernel for Java.
 *
 * <p>Jupyter starts it with the connection file as its only argument; see {@code jupyter/kernels/cs336/kernel.json}.
 */
public final class JavaKernel extends BaseKernel {
    /** Time that a cell and shutdown hooks have to end after a shutdown request. */
    private static final long END_MS = 3000;

    /** The environment variable with which Jupyter names its process to the kernels that it starts. */
    static final String STARTED_BY_JUPYTER = "JPY_PARENT_PID";

    /** The number of characters per line of a cell in a window of 1280 pixels. */
    static final int MOST_COLUMNS = 100;

    private static volatile JavaKernel current;

    private final CompletableFuture<Evaluator> evaluator;
    private final CellOutput output;
    private final CompletableFuture<CodeInsight> insight;
    private final WidgetComms widgets;
    private ClientConnection connection;
    private String cellId; // null if unknown

    /** Creates a kernel with the imports {@link Imports#GENEROUS}. */
    public JavaKernel() {
        this(Imports.GENEROUS, null);
    }

    /**
     * Creates a kernel. Its compiler, which takes longest to start, starts in another thread.
     *
     * @param frontEnd the destination of output; null for the Jupyter client that this kernel is connected to
     */
    JavaKernel(Imports imports, FrontEnd frontEnd) {
        Progress.inNotebook(false);
        evaluator = CompletableFuture.supplyAsync(() -> new Evaluator(imports));
        SourceLine.nameBy(frame -> evaluator.join().nameOf(frame));
        output = new CellOutput(frontEnd == null ? new JupyterClient() : frontEnd);
        insight = evaluator.thenApply(ready -> new CodeInsight(ready.analysis(), new SourceDocs(sources())));
        setShouldReplaceStdStreams(false);
        widgets = new WidgetComms(getRenderer(), new ListenerHost());
        commManager = widgets;
        Renderers.registerIn(getRenderer(), widgets);
    }

    /**
     * Returns the source folder of the project that contains the notebook; outside of a project, a folder that does not
     * exist.
     */
    private static Path sources() {
        try {
            return Project.path("src/main/java");
        } catch (UncheckedIOException e) {
            return Path.of("src/main/java");
        }
    }

    /** Sets the connection that reports errors of cells and sends output printed between cells. */
    void connectedTo(ClientConnection client) {
        connection = client;
    }

    /**
     * Begins a cell.
     *
     * @param id the id of the cell; null if the client does not send it
     * @param attended whether a user sees widgets and answers input requests; false for runners such as nbconvert
     */
    void beginCell(String id, boolean attended) {
        cellId = id;
        widgets.beginCell(id, attended);
    }

    /** Returns the messages of widgets. */
    WidgetComms widgets() {
        return widgets;
    }

    /** Returns the kernel that runs the calling cell. */
    static JavaKernel current() {
        JavaKernel kernel = current;
        if (kernel == null) {
            throw new IllegalStateException("no notebook is running: display and render work in notebook cells only");
        }
        return kernel;
    }

    /**
     * Connects to Jupyter and handles requests until a client requests a shutdown. If a channel fails, the process ends
     * with exit code 1, so that Jupyter notices. It also ends when the Jupyter server that started it has ended, which
     * cannot request a shutdown if it was killed.
     */
    public static void main(String[] args) throws Exception {
        // Format numbers as in the executed copies, in any locale.
        Locale.setDefault(Locale.ENGLISH);
        // The base kernel logs every message.
        Logger.getLogger("").setLevel(Level.WARNING);
        var kernel = new JavaKernel();
        ClientConnection connection = checkedConnection(args);
        connection.serve(kernel);
        PrintStream log = System.err;
        // Threads that a cell started print to this stream between cells.
        kernel.output.redirect();
        NativeOutput.capture();
        // Without JeroMQ's threads, all channels are silent.
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            System.err.print("Exception in thread \"" + thread.getName() + "\" ");
            error.printStackTrace();
            if (thread.getName().matches("(iothread|reaper)-.*")) {
                connection.failed();
            }
        });
        try {
            connection.connect();
        } catch (RuntimeException e) { // a port is in use, or an address is not of this machine
            String reason = e instanceof ZMQException failure && failure.getErrorCode() == ZError.EADDRINUSE
                    ? "a port is in use"
                    : e.getMessage();
            log.println("the kernel cannot listen at the ports in " + args[0] + ": " + reason);
            haltAfter(END_MS, 1);
            System.exit(1);
        }
        if (System.getenv(STARTED_BY_JUPYTER) != null) {
            ProcessHandle.current()
                    .parent()
                    .ifPresent(jupyter -> jupyter.onExit().thenRun(connection::failed));
        }
        int exitCode = connection.awaitEnd();
        haltAfter(END_MS, exitCode);
        connection.close();
        // Threads started by cells must not keep the kernel alive.
        System.exit(exitCode);
    }

    /**
     * Creates the connection that a connection file describes.
     *
     * @throws IllegalArgumentException if the file is not a connection file; the message names it
     */
    static ClientConnection connection(Path file) {
        try {
            KernelConnectionProperties properties = KernelConnectionProperties.parse(Files.readString(file));
            if (properties == null || properties.getIp() == null || properties.getTransport() == null) {
                throw new IllegalArgumentException("ip or transport is missing");
            }
            return new ClientConnection(properties);
        } catch (JsonParseException e) {
            throw new IllegalArgumentException(file + " is not a connection file of Jupyter: it is no JSON object", e);
        } catch (IOException | GeneralSecurityException | RuntimeException e) {
            throw new IllegalArgumentException(file + " is not a connection file of Jupyter: " + e.getMessage(), e);
        }
    }

    /** Creates a connection; if that fails, prints the reason and ends the process with exit code 2. */
    private static ClientConnection checkedConnection(String... args) {
        try {
            if (args.length == 1 && !args[0].startsWith("-") && !Files.isRegularFile(Path.of(args[0]))) {
                throw new IllegalArgumentException("there is no connection file '" + args[0] + "'");
            }
            if (args.length != 1 || args[0].startsWith("-")) {
                throw new IllegalArgumentException(
                        "usage: JavaKernel CONNECTION_FILE (Jupyter starts the kernel; see jupyter/kernels/cs336)");
            }
            return connection(Path.of(args[0]));
        } catch (IllegalArgumentException e) {
            System.err.println(e.getMessage());
            System.exit(2);
            throw e;
        }
    }

    /** Ends the process by force if a cell that cannot be stopped, or its shutdown hook, prevents the exit. */
    private static void haltAfter(long milliseconds, int exitCode) {
        var timer = new Thread(() -> {
            try {
                Thread.sleep(milliseconds);
            } catch (InterruptedException e) {
                // Only a cell can do this; it does not delay the end.
            }
            ProcessEnd.now(exitCode);
        });
        timer.setDaemon(true);
        timer.start();
    }

    /** Does not count the last cell. */
    void uncount() {
        executionCount.decrementAndGet();
    }

    @Override
    public DisplayData eval(String cell) throws CellException {
        int count = executionCount.get() - 1;
        try {
            return eval(cell, count);
        } catch (CellException e) {
            if (connection != null) {
                connection.failed(e, count);
            }
            throw e;
        }
    }

    /** Runs a cell and returns its rendered value; null if there is nothing to show. */
    DisplayData eval(String cell, int number) throws CellException {
        current = this;
        CellOutput.Redirection redirection = output.redirect();
        try {
            HostLoad.warnOnce(warning -> System.out.println(warning));
            Object value;
            try {
                value = evaluator.join().eval(cell, number, cellId);
            } finally {
                Magics.stop();
            }
            if (value == null) {
                return null;
            }
            // Rendering calls toString of the value, which may throw or take long.
            return value instanceof DisplayData data
                    ? data
                    : evaluator.join().run(() -> getRenderer().render(value));
        } catch (RuntimeException | Error e) {
            throw evaluator.join().thrown(e); // the kernel must survive
        } finally {
            NativeOutput.flush();
            redirection.close();
        }
    }

    @Override
    public void display(DisplayData data) {
        output.display(data);
    }

    /** Replaces the output with this id. */
    public void updateDisplay(String id, DisplayData data) {
        output.updateDisplay(id, data);
    }

    /** Adds a jar or a folder of classes to the class path of cells. */
    public void addToClasspath(String path) {
        evaluator.join().addToClasspath(path);
    }

    @Override
    public void interrupt() {
        evaluator.join().interrupt();
    }

    /** Blocks until all output so far has been delivered. */
    void flush() {
        output.drain();
    }

    @Override
    public ReplacementOptions complete(String cell, int position) {
        ReplacementOptions found = insight.join().complete(cell, index(cell, position));
        return new ReplacementOptions(
                found.getReplacements(),
                cell.codePointCount(0, found.getSourceStart()),
                cell.codePointCount(0, found.getSourceEnd()));
    }

    @Override
    public DisplayData inspect(String cell, int position, boolean extraDetail) {
        return insight.join().inspect(cell, index(cell, position));
    }

    /**
     * Returns the index of a position that a client sent, which counts code points; a wrong one becomes the nearest.
     */
    private static int index(String cell, int position) {
        return cell.offsetByCodePoints(0, Math.max(0, Math.min(position, cell.codePointCount(0, cell.length()))));
    }

    @Override
    public String isComplete(String cell) {
        return insight.join().isComplete(cell);
    }

    @Override
    public List<String> formatError(Exception e) {
        List<String> report = e instanceof CellException cell ? cell.report() : List.of(e.toString());
        List<String> lines = new ArrayList<>();
        report.stream()
                .flatMap(String::lines)
                .forEach(line -> lines.add(lines.isEmpty() ? errorStyler.secondary(line) : line));
        return lines;
    }

    @Override
    public LanguageInfo getLanguageInfo() {
        // JupyterLab stores this in each notebook that it saves, so it must not depend on the machine.
        return new LanguageInfo.Builder("Java")
                .mimetype("text/x-java-source")
                .fileExtension(".java")
                .build();
    }

    @Override
    public String getBanner() {
        return "Java " + Runtime.version() + " (cs336)";
    }

    @Override
    public void onShutdown(boolean isRestarting) {
        try {
            interrupt();
        } catch (IllegalStateException e) {
            // The cell cannot be stopped. The end of the process ends it.
        }
    }

    /** Closes the evaluator of this kernel. */
    void close() {
        evaluator.join().close();
    }

    private final class ListenerHost implements WidgetHost {
        @Override
        public void deliver(Runnable message) {
            output.send(message);
        }

        @Override
        public void flush() {
            output.drain();
        }

        @Override
        public List<String> report(Throwable error) {
            return evaluator.join().thrown(error).report();
        }

        @Override
        public void run(Callable<?> listener) {
            current = JavaKernel.this;
            CellOutput.Redirection redirection = output.redirect();
            try {
                evaluator.join().run(listener);
            } catch (CellException e) {
                System.err.println(String.join("\n", e.report()));
            } finally {
                NativeOutput.flush();
                redirection.close();
            }
        }
    }

    private final class JupyterClient implements FrontEnd {
        @Override
        public InputStream input() {
            return getIO().in;
        }

        @Override
        public void print(CellStream stream, String text) {
            if (connection != null && !getIO().isAttached()) {
                boolean isOut = stream == CellStream.STDOUT;
                connection.publishAfterCell(
                        new PublishStream(isOut ? PublishStream.StreamType.OUT : PublishStream.StreamType.ERR, text));
                return;
            }
            (stream == CellStream.STDOUT ? getIO().out : getIO().err).print(text);
        }

        @Override
        public void display(DisplayData data) {
            if (connection != null && !getIO().isAttached()) {
                connection.publishAfterCell(new PublishDisplayData(data));
                return;
            }
            getIO().display.display(data);
        }

        @Override
        public void updateDisplay(String id, DisplayData data) {
            if (connection != null && !getIO().isAttached()) {
                data.setDisplayId(id);
                connection.publishAfterCell(new PublishUpdateDisplayData(data));
                return;
            }
            getIO().display.updateDisplay(id, data);
        }
    }
}
