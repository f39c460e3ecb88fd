package cs336.notebook;

import cs336.charts.Svg;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A converter from Java source to HTML with highlighted keywords, literals and comments. */
final class JavaHighlight {
    private static final Pattern TOKEN = Pattern.compile(
            "(?<comment>//[^\\n]*|/\\*.*?(?:\\*/|$))"
                    + "|(?<string>\"\"\".*?(?:\"\"\"|$)|\"(?:\\\\.|[^\"\\\\\\n]++)*+\"?|'(?:\\\\.|[^'\\\\\\n]++)*+'?)"
                    + "|(?<number>\\b\\d[\\w.]*)"
                    + "|(?<keyword>\\b(?:abstract|assert|boolean|break|byte|case|catch|char|class|continue|default|do"
                    + "|double|else|enum|extends|false|final|finally|float|for|if|implements|import|instanceof|int"
                    + "|interface|long|new|null|package|permits|private|protected|public|record|return|sealed|short"
                    + "|static|super|switch|synchronized|this|throw|throws|true|try|var|void|volatile|while|yield)\\b)",
            Pattern.DOTALL);

    private JavaHighlight() {}

    static String html(String source) {
        var html = new StringBuilder();
        Matcher token = TOKEN.matcher(source);
        int done = 0;
        while (token.find()) {
            html.append(Svg.escape(source.substring(done, token.start())));
            html.append("<span class=\"").append(kind(token)).append("\">");
            html.append(Svg.escape(token.group())).append("</span>");
            done = token.end();
        }
        return html.append(Svg.escape(source.substring(done))).toString();
    }

    private static String kind(Matcher token) {
        for (String kind : new String[] {"comment", "string", "number", "keyword"}) {
            if (token.group(kind) != null) {
                return kind;
            }
        }
        throw new AssertionError("unknown kind of token: " + token.group());
    }
}
