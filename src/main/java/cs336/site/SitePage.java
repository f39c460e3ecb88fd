package cs336.site;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * An HTML page of the site, as the notebooks and the writeup produce it.
 *
 * @param name the file name of the page in the site
 * @param html the whole document
 */
record SitePage(String name, String html) {
    private static final Pattern TITLE = Pattern.compile("<title>(.*?)</title>", Pattern.DOTALL);
    private static final Pattern HEADING = Pattern.compile("<h([12]) id=\"([^\"]*)\">(.*?)</h\\1>", Pattern.DOTALL);
    private static final Pattern FIRST_TEXT = Pattern.compile("<p>(.*?)</p>", Pattern.DOTALL);
    private static final Pattern FIGURE = Pattern.compile("<img\\b[^>]*\\bsrc=\"(data:image/[^\"]+)\"");
    private static final int LEAST_FIGURE = 4000;

    /** A part of a page: its heading, the heading's id, and the text below it. */
    record Section(String heading, String id, String text) {}

    /** Returns the title as HTML text. */
    String title() {
        Matcher title = TITLE.matcher(html);
        return title.find() ? title.group(1).strip() : name;
    }

    /** Returns the first paragraph as HTML text without tags, with squares as in print. */
    String summary() {
        Matcher paragraph = FIRST_TEXT.matcher(html);
        return paragraph.find() ? plain(paragraph.group(1)).replace("^2", "²") : "";
    }

    /** Returns the first large image as a {@code data:} URL; empty if there is none. */
    String thumbnail() {
        return FIGURE.matcher(html)
                .results()
                .map(image -> image.group(1))
                .filter(image -> image.length() > LEAST_FIGURE)
                .findFirst()
                .orElse("");
    }

    /** Returns the parts of the page below its headings of levels 1 and 2. */
    List<Section> sections() {
        List<MatchResult> headings = HEADING.matcher(html).results().toList();
        List<Section> sections = new ArrayList<>();
        for (int i = 0; i < headings.size(); i++) {
            MatchResult heading = headings.get(i);
            int end = i + 1 < headings.size() ? headings.get(i + 1).start() : html.length();
            String text = plain(html.substring(heading.end(), end));
            sections.add(new Section(plain(heading.group(3)), heading.group(2), text));
        }
        return sections;
    }

    /** Returns HTML as text in one line, still escaped; formulas become their TeX. */
    private static String plain(String html) {
        return html.replaceAll("(?s)<(script|style|iframe)\\b.*?</\\1>", " ")
                .replaceAll("(?s)<svg\\b[^>]*aria-label=\"([^\"]*)\".*?</svg>", "$1")
                .replaceAll("(?s)<[^>]*>", " ")
                .replaceAll("\\s+([.,;:)])", "$1")
                .replaceAll("\\s+", " ")
                .strip();
    }
}
