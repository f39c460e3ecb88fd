package cs336.notebook.widgets;

import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import cs336.charts.Svg;
import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import io.github.spencerpark.jupyter.kernel.display.Renderer;
import io.github.spencerpark.jupyter.kernel.display.mime.MIMEType;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.concurrent.Callable;

/**
 * The output of a task, with its value or its exception.
 *
 * @param value the returned value; null if there is none
 * @param error null if the task returned
 */
record CapturedOutput(String printed, Object value, Throwable error) {
    static final CapturedOutput NOTHING = new CapturedOutput("", null, null);

    /** The number of bytes that a task may print. */
    private static final int MOST_PRINTED = 1 << 20;

    private static final Gson GSON = new Gson();

    /** Runs a task and captures what it prints to {@code System.out} and {@code System.err}. */
    static CapturedOutput of(Callable<?> task) {
        PrintStream out = System.out;
        PrintStream err = System.err;
        var bytes = new LimitedBytes();
        var stream = new PrintStream(bytes, true, StandardCharsets.UTF_8);
        System.setOut(stream);
        System.setErr(stream);
        try {
            Object value = task.call();
            return new CapturedOutput(bytes.toString(StandardCharsets.UTF_8), value, null);
        } catch (Exception | AssertionError | StackOverflowError e) {
            return new CapturedOutput(bytes.toString(StandardCharsets.UTF_8), null, e);
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
    }

    /**
     * Returns the outputs in the format of notebook files.
     *
     * @param host describes the exception
     */
    JsonArray outputs(Renderer renderer, WidgetHost host) {
        var outputs = new JsonArray();
        if (!printed.isEmpty()) {
            var stream = new JsonObject();
            stream.addProperty("output_type", "stream");
            stream.addProperty("name", "stdout");
            stream.addProperty("text", printed);
            outputs.add(stream);
        }
        if (value != null) {
            JsonObject rendered = GSON.toJsonTree(rendered(renderer)).getAsJsonObject();
            var display = new JsonObject();
            display.addProperty("output_type", "display_data");
            display.add("data", rendered.get("data"));
            display.add("metadata", rendered.has("metadata") ? rendered.get("metadata") : new JsonObject());
            outputs.add(display);
        }
        if (error != null) {
            var failure = new JsonObject();
            failure.addProperty("output_type", "error");
            failure.addProperty("ename", error.getClass().getName());
            failure.addProperty("evalue", String.valueOf(error.getMessage()));
            var lines = new JsonArray();
            host.report(error).forEach(lines::add);
            failure.add("traceback", lines);
            outputs.add(failure);
        }
        return outputs;
    }

    private DisplayData rendered(Renderer renderer) {
        return value instanceof DisplayData data ? data : renderer.render(value);
    }

    /** Returns the outputs as HTML. */
    String html(Renderer renderer) {
        var html = new StringBuilder();
        if (!printed.isEmpty()) {
            html.append("<pre>").append(Svg.escape(printed)).append("</pre>\n");
        }
        if (value != null) {
            html.append(valueHtml(renderer)).append('\n');
        }
        if (error != null) {
            html.append("<pre>").append(Svg.escape(error.toString())).append("</pre>\n");
        }
        return html.toString();
    }

    private String valueHtml(Renderer renderer) {
        DisplayData data = withoutImage(renderer);
        if (data.hasDataForType(MIMEType.TEXT_HTML)) {
            return data.getData(MIMEType.TEXT_HTML).toString();
        }
        String text = data.hasDataForType(MIMEType.TEXT_PLAIN)
                ? Svg.escape(data.getData(MIMEType.TEXT_PLAIN).toString())
                : "";
        if (data.hasDataForType(MIMEType.IMAGE_PNG)) {
            return "<img alt=\"" + text + "\" style=\"max-width: 100%\" src=\"data:image/png;base64,"
                    + data.getData(MIMEType.IMAGE_PNG) + "\">";
        }
        return "<pre>" + text + "</pre>";
    }

    /** Returns HTML and text, if there is HTML, because rendering an image takes longer; otherwise all forms. */
    private DisplayData withoutImage(Renderer renderer) {
        // Strings would become HTML as they are.
        if (value instanceof DisplayData || value instanceof CharSequence) {
            return rendered(renderer);
        }
        DisplayData data = renderer.renderAs(value, "text/html");
        return data.hasDataForType(MIMEType.TEXT_HTML) ? data : renderer.render(value);
    }

    /** Returns the outputs as text. */
    String text(Renderer renderer) {
        String shown = "";
        if (value != null) {
            Object plain = withoutImage(renderer).getData(MIMEType.TEXT_PLAIN);
            shown = plain == null ? String.valueOf(value) : plain.toString();
        }
        return printed + shown + (error == null ? "" : error.toString());
    }

    /** A buffer that ignores what exceeds {@link #MOST_PRINTED}, except for a notice. */
    private static final class LimitedBytes extends ByteArrayOutputStream {
        private boolean full;

        @Override
        public synchronized void write(int b) {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override
        public synchronized void write(byte[] bytes, int offset, int length) {
            if (full) {
                return;
            }
            full = count + length > MOST_PRINTED;
            if (full) {
                byte[] notice =
                        String.format(Locale.ROOT, "%n… the rest is left out%n").getBytes(StandardCharsets.UTF_8);
                super.write(notice, 0, notice.length);
            } else {
                super.write(bytes, offset, length);
            }
        }
    }
}
