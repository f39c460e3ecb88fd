package cs336.notebook;

import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import cs336.charts.Svg;
import cs336.charts.TextResource;
import cs336.writeup.MarkdownException;
import cs336.writeup.MarkdownHtml;
import cs336.writeup.Page;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * A self-contained HTML page of a notebook with its outputs; scripts sort and search long tables, and show the results
 * that controls select.
 */
final class NotebookPage {
    private static final Pattern TERMINAL_COLOURS = Pattern.compile("\\u001B\\[[0-9;]*m");
    private static final Pattern TITLE = Pattern.compile("^#\\s+(.+)$", Pattern.MULTILINE);

    private final Notebook notebook;
    private final MarkdownHtml markdown;
    private final Map<Integer, String> texts = new HashMap<>();

    /**
     * Converts the text cells. {@link #html} adds the code cells with the outputs that they have at that time.
     *
     * @throws NotebookFailure if a formula or an image of a text cell cannot be shown
     */
    NotebookPage(Notebook notebook) throws NotebookFailure {
        this.notebook = notebook;
        markdown = new MarkdownHtml(notebook.folder());
        List<Notebook.Cell> cells = notebook.cells();
        for (int i = 0; i < cells.size(); i++) {
            if (cells.get(i).isMarkdown()) {
                try {
                    texts.put(i, markdown.fragment(withAttachments(cells.get(i))));
                } catch (MarkdownException e) {
                    String where = "text in cell " + (i + 1);
                    throw new NotebookFailure(notebook.name(), where, e.line(), e.getMessage(), List.of());
                }
            }
        }
    }

    /** Returns the text of a cell with its attached images as {@code data:} URLs. */
    private static String withAttachments(Notebook.Cell cell) {
        String text = cell.source();
        if (cell.json().get("attachments") instanceof JsonObject images) {
            for (var image : images.entrySet()) {
                JsonObject forms = image.getValue() instanceof JsonObject object ? object : new JsonObject();
                for (var form : forms.entrySet()) {
                    if (form.getValue() instanceof JsonPrimitive base64) {
                        String url = "data:" + form.getKey() + ";base64," + base64.getAsString();
                        text = text.replace("(attachment:" + image.getKey() + ")", "(" + url + ")");
                    }
                }
            }
        }
        return text;
    }

    String html() {
        var html = new StringBuilder();
        List<Notebook.Cell> cells = notebook.cells();
        for (int i = 0; i < cells.size(); i++) {
            Notebook.Cell cell = cells.get(i);
            if (cell.isMarkdown()) {
                html.append(texts.get(i));
            } else if (cell.isCode() && !cell.source().isBlank()) {
                String code = "<pre class=\"code\">" + JavaHighlight.html(cell.source()) + "</pre>\n";
                html.append(cell.hidesSource() ? "<details><summary>code</summary>" + code + "</details>\n" : code);
                cell.outputs().forEach(output -> append(output.getAsJsonObject(), html));
            }
        }
        return Page.forScreen(title(), html.toString())
                .replace(
                        "</head>",
                        "<style>\n" + TextResource.read(NotebookPage.class, "notebook.css") + "</style>\n</head>");
    }

    private String title() {
        return notebook.cells().stream()
                .filter(Notebook.Cell::isMarkdown)
                .map(cell -> TITLE.matcher(cell.source()))
                .filter(matcher -> matcher.find())
                .map(matcher -> matcher.group(1))
                .findFirst()
                .orElse(notebook.name());
    }

    private void append(JsonObject output, StringBuilder html) {
        switch (output.get("output_type").getAsString()) {
            case "stream" -> {
                String kind = output.get("name").getAsString();
                html.append("<pre class=\"output ").append(Svg.escape(kind)).append("\">");
                html.append(terminalText(Notebook.text(output.get("text")))).append("</pre>\n");
            }
            case "error" -> {
                List<String> lines = new ArrayList<>();
                output.getAsJsonArray("traceback").forEach(line -> lines.add(line.getAsString()));
                html.append("<pre class=\"output error\">");
                html.append(terminalText(String.join("\n", lines))).append("</pre>\n");
            }
            default -> {
                html.append("<div class=\"output\">");
                appendBest(output.getAsJsonObject("data"), html);
                html.append("</div>\n");
            }
        }
    }

    /** Appends the richest format that the page supports. SVG is embedded as an image so that ids do not clash. */
    private void appendBest(JsonObject forms, StringBuilder html) {
        if (forms.has("text/html")) {
            html.append(Notebook.text(forms.get("text/html")));
        } else if (forms.has("image/svg+xml")) {
            byte[] svg = Notebook.text(forms.get("image/svg+xml")).getBytes(StandardCharsets.UTF_8);
            appendImage("image/svg+xml", Base64.getEncoder().encodeToString(svg), forms, html);
        } else if (forms.has("image/png")) {
            appendImage("image/png", Notebook.text(forms.get("image/png")).strip(), forms, html);
        } else if (forms.has("text/markdown") || forms.has("text/latex")) {
            String form = forms.has("text/markdown") ? "text/markdown" : "text/latex";
            appendMarkdown(Notebook.text(forms.get(form)), html);
        } else {
            appendPlain(Notebook.text(forms.get("text/plain")), html);
        }
    }

    private static void appendImage(String type, String base64, JsonObject forms, StringBuilder html) {
        String description = Svg.escape(Notebook.text(forms.get("text/plain")));
        html.append("<img alt=\"").append(description).append("\" src=\"data:").append(type);
        html.append(";base64,").append(base64).append("\">");
    }

    private void appendMarkdown(String text, StringBuilder html) {
        try {
            html.append(markdown.fragment(text));
        } catch (MarkdownException e) {
            appendPlain(text, html);
        }
    }

    private static void appendPlain(String text, StringBuilder html) {
        html.append("<pre>").append(terminalText(text)).append("</pre>");
    }

    /**
     * Returns the text as a terminal shows it: without colour codes, and only the last version of overwritten lines.
     */
    private static String terminalText(String text) {
        var lines = new StringBuilder();
        String plain = TERMINAL_COLOURS.matcher(text).replaceAll("").replace("\r\n", "\n");
        for (String line : plain.split("\n", -1)) {
            String written = line.endsWith("\r") ? line.substring(0, line.length() - 1) : line;
            lines.append(written.substring(written.lastIndexOf('\r') + 1)).append('\n');
        }
        return Svg.escape(lines.substring(0, lines.length() - 1));
    }
}
