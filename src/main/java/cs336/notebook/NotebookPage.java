package cs336.notebook;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.regex.Pattern;

/** A notebook with its outputs as one HTML page that needs no other file and no script. */
final class NotebookPage {
    private static final Pattern TERMINAL_COLOURS = Pattern.compile("\\u001B\\[[0-9;]*m");
    private static final Pattern TITLE = Pattern.compile("^#\\s+(.+)$", Pattern.MULTILINE);
    private static final String STYLE = """
            body { max-width: 52rem; margin: 2rem auto; padding: 0 1rem; color: #1f2328;
                   font: 1rem/1.55 system-ui, sans-serif; }
            h1, h2, h3 { line-height: 1.25; margin: 2rem 0 .75rem; }
            pre { font: .85rem/1.45 ui-monospace, monospace; overflow-x: auto; margin: 0; white-space: pre-wrap; }
            code { font: .9em ui-monospace, monospace; }
            .code { background: #f6f8fa; border-left: 3px solid #8c959f; padding: .6rem .8rem; margin: 1rem 0 .25rem; }
            .output { margin: .25rem 0 1rem; padding-left: calc(.8rem + 3px); overflow-x: auto; }
            .stderr { background: #fff4e5; }
            .error { background: #ffebe9; border-left: 3px solid #cf222e; padding: .6rem .8rem; }
            .keyword { color: #0550ae; } .string { color: #116329; } .comment { color: #57606a; font-style: italic; }
            .number { color: #953800; }
            img, svg { max-width: 100%; height: auto; }
            table { border-collapse: collapse; margin: .5rem 0; font-size: .9rem; font-variant-numeric: tabular-nums; }
            th, td { padding: .2rem .7rem; border-bottom: 1px solid #d0d7de; }
            thead th { border-bottom: 2px solid #8c959f; }
            caption { text-align: left; font-weight: 600; padding: .3rem 0; }
            blockquote { margin: 1rem 0; padding-left: 1rem; border-left: 3px solid #d0d7de; color: #57606a; }
            """;

    private final Notebook notebook;
    private final Markdown markdown = new Markdown();

    NotebookPage(Notebook notebook) {
        this.notebook = notebook;
    }

    String html() {
        StringBuilder html =
                new StringBuilder("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        html.append("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        html.append("<title>").append(Html.escape(title())).append("</title>\n");
        html.append("<style>\n").append(STYLE).append("</style>\n</head>\n<body>\n");
        for (Notebook.Cell cell : notebook.cells()) {
            if (cell.isMarkdown()) {
                html.append(markdown.html(cell.source()));
            } else if (cell.isCode() && !cell.source().isBlank()) {
                html.append("<pre class=\"code\">")
                        .append(JavaHighlight.html(cell.source()))
                        .append("</pre>\n");
                for (JsonElement output : cell.outputs()) {
                    append(output.getAsJsonObject(), html);
                }
            }
        }
        return html.append("</body>\n</html>\n").toString();
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
                html.append("<pre class=\"output ").append(Html.escape(kind)).append("\">");
                html.append(terminalText(Notebook.text(output.get("text")))).append("</pre>\n");
            }
            case "error" -> {
                List<String> lines = new ArrayList<>();
                output.getAsJsonArray("traceback").forEach(line -> lines.add(line.getAsString()));
                html.append("<pre class=\"output error\">")
                        .append(terminalText(String.join("\n", lines)))
                        .append("</pre>\n");
            }
            default -> {
                html.append("<div class=\"output\">");
                appendBest(output.getAsJsonObject("data"), html);
                html.append("</div>\n");
            }
        }
    }

    /** The richest form the page can hold; pictures go in as images, so that they share no names with each other. */
    private void appendBest(JsonObject forms, StringBuilder html) {
        if (forms.has("text/html")) {
            html.append(Notebook.text(forms.get("text/html")));
        } else if (forms.has("image/svg+xml")) {
            String svg = Notebook.text(forms.get("image/svg+xml"));
            appendImage(
                    "image/svg+xml",
                    Base64.getEncoder().encodeToString(svg.getBytes(StandardCharsets.UTF_8)),
                    forms,
                    html);
        } else if (forms.has("image/png")) {
            appendImage("image/png", Notebook.text(forms.get("image/png")).strip(), forms, html);
        } else if (forms.has("text/markdown")) {
            html.append(markdown.html(Notebook.text(forms.get("text/markdown"))));
        } else if (forms.has("text/latex")) {
            html.append(markdown.html(Notebook.text(forms.get("text/latex"))));
        } else {
            html.append("<pre>")
                    .append(terminalText(Notebook.text(forms.get("text/plain"))))
                    .append("</pre>");
        }
    }

    private static void appendImage(String type, String base64, JsonObject forms, StringBuilder html) {
        String description = Html.escape(Notebook.text(forms.get("text/plain")));
        html.append("<img alt=\"")
                .append(description)
                .append("\" src=\"data:")
                .append(type)
                .append(";base64,");
        html.append(base64).append("\">");
    }

    /** As a terminal would leave it: without colours, and of a line written over several times the last version. */
    private static String terminalText(String text) {
        StringBuilder lines = new StringBuilder();
        for (String line : TERMINAL_COLOURS
                .matcher(text)
                .replaceAll("")
                .replace("\r\n", "\n")
                .split("\n", -1)) {
            String written = line.endsWith("\r") ? line.substring(0, line.length() - 1) : line;
            lines.append(lines.isEmpty() ? "" : "\n").append(written.substring(written.lastIndexOf('\r') + 1));
        }
        return Html.escape(lines.toString());
    }
}
