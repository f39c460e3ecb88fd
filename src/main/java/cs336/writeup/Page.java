package cs336.writeup;

import cs336.charts.Svg;
import cs336.charts.TextResource;
import cs336.charts.Typeface;
import java.util.ArrayDeque;
import java.util.Base64;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** Self-contained HTML pages with the project's fonts and style sheet. */
public final class Page {
    private static final String STYLE = TextResource.read(Page.class, "page.css");
    private static final Pattern HEADING = Pattern.compile("<h([1-3]) id=\"([^\"]*)\">(.*?)</h[1-3]>");

    private static final Pattern FORMULA = Pattern.compile("<svg\\b[^>]* aria-label=(\"[^\"]*\")");

    private Page() {}

    /** Returns a page for browsers, with embedded fonts. */
    public static String forScreen(String title, String body) {
        var faces = new StringBuilder();
        for (Typeface face : Typeface.values()) {
            faces.append("@font-face { font-family: \"" + face.family() + "\"; font-weight: " + face.weight()
                    + "; font-style: " + (face.italic() ? "italic" : "normal") + "; src: url(data:font/woff2;base64,"
                    + Base64.getEncoder().encodeToString(face.woff2()) + ") format(\"woff2\"); }\n");
        }
        return document(title, faces + STYLE, body);
    }

    /** Returns a page for {@link Pdf}, without fonts but with the PDF outline and formulas' alternative texts. */
    static String forPrint(String title, String body) {
        String described = FORMULA.matcher(body).replaceAll("$0 alt=$1");
        String subject = "<meta name=\"subject\" content=\"" + Svg.escape(title) + "\" />\n"; // which PDF/UA requires
        return document(title, STYLE, described).replace("</head>", subject + bookmarks(body) + "</head>");
    }

    /** Returns the table of contents: the headings of level 2. */
    static String contents(String body) {
        String items = HEADING.matcher(body)
                .results()
                .filter(heading -> heading.group(1).equals("2"))
                .map(heading -> "<li><a href=\"#" + heading.group(2) + "\">" + heading.group(3) + "</a></li>\n")
                .collect(Collectors.joining());
        return items.isEmpty() ? "" : "<nav class=\"contents\">\n<ul>\n" + items + "</ul>\n</nav>\n";
    }

    /** Returns the PDF outline: each heading of levels 1 to 3 contains the following headings of higher levels. */
    private static String bookmarks(String body) {
        var text = new StringBuilder("<bookmarks>\n");
        var open = new ArrayDeque<Integer>();
        for (MatchResult heading : HEADING.matcher(body).results().toList()) {
            int level = Integer.parseInt(heading.group(1));
            while (!open.isEmpty() && open.peek() >= level) {
                open.pop();
                text.append("</bookmark>\n");
            }
            open.push(level);
            String name = heading.group(3).replaceAll("<[^>]*>", "").replace("\"", "&quot;");
            text.append("<bookmark name=\"" + name + "\" href=\"#" + heading.group(2) + "\">\n");
        }
        return text + "</bookmark>\n".repeat(open.size()) + "</bookmarks>\n";
    }

    private static String document(String title, String style, String body) {
        return "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
                + "<meta charset=\"utf-8\" />\n"
                + "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n"
                + "<title>" + Svg.escape(title) + "</title>\n<style>\n" + style + "</style>\n</head>\n<body>\n<main>\n"
                + body + "</main>\n</body>\n</html>\n";
    }
}
