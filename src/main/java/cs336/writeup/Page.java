package cs336.writeup;

import cs336.charts.Svg;
import cs336.charts.Typeface;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;

/** Self-contained HTML pages with the project's fonts and style sheet. */
public final class Page {
    private static final Pattern HEADING = Pattern.compile("<h([12]) id=\"([^\"]*)\">(.*?)</h[12]>");

    private Page() {}

    /** Returns a page for browsers, with embedded fonts. */
    public static String forScreen(String title, String body) {
        var faces = new StringBuilder();
        for (Typeface face : Typeface.values()) {
            faces.append("@font-face { font-family: \"" + face.family() + "\"; font-weight: " + face.weight()
                    + "; font-style: " + (face.italic() ? "italic" : "normal") + "; src: url(data:font/woff2;base64,"
                    + Base64.getEncoder().encodeToString(face.woff2()) + ") format(\"woff2\"); }\n");
        }
        return document(title, faces + style(), body);
    }

    /** Returns a page for {@link Pdf}, without fonts but with the PDF outline. */
    static String forPrint(String title, String body) {
        return document(title, style(), body).replace("</head>", bookmarks(body) + "</head>");
    }

    /** Returns the PDF outline: headings of level 1, which contain the following headings of level 2. */
    private static String bookmarks(String body) {
        var text = new StringBuilder("<bookmarks>\n");
        boolean inChapter = false;
        for (MatchResult heading : HEADING.matcher(body).results().toList()) {
            boolean chapter = heading.group(1).equals("1");
            if (chapter && inChapter) {
                text.append("</bookmark>\n");
            }
            String name = heading.group(3).replaceAll("<[^>]*>", "").replace("\"", "&quot;");
            text.append("<bookmark name=\"" + name + "\" href=\"#" + heading.group(2) + "\"")
                    .append(chapter ? ">\n" : "/>\n");
            inChapter |= chapter;
        }
        return text + (inChapter ? "</bookmark>\n" : "") + "</bookmarks>\n";
    }

    private static String document(String title, String style, String body) {
        return "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
                + "<meta charset=\"utf-8\" />\n"
                + "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n"
                + "<title>" + Svg.escape(title) + "</title>\n<style>\n" + style + "</style>\n</head>\n<body>\n<main>\n"
                + body + "</main>\n</body>\n</html>\n";
    }

    private static String style() {
        try (InputStream in = Page.class.getResourceAsStream("page.css")) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
