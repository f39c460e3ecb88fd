package cs336.writeup;

import java.util.List;
import java.util.regex.Pattern;
import org.commonmark.node.CustomNode;
import org.commonmark.parser.InlineParserContext;
import org.commonmark.parser.Parser;
import org.commonmark.parser.beta.LinkInfo;
import org.commonmark.parser.beta.LinkResult;
import org.commonmark.parser.beta.Scanner;

/** A CommonMark extension for citations, as in Pandoc: {@code [@dao2022]} or {@code [@dao2022; @dao2023]}. */
final class Citations implements Parser.ParserExtension {
    private static final Pattern SEPARATOR = Pattern.compile("\\s*;\\s*@");

    /** One or more works that are cited together. */
    static final class Citation extends CustomNode {
        private final List<String> keys;

        Citation(List<String> keys) {
            this.keys = keys;
        }

        List<String> keys() {
            return keys;
        }
    }

    @Override
    public void extend(Parser.Builder builder) {
        builder.linkProcessor(Citations::process);
    }

    private static LinkResult process(LinkInfo brackets, Scanner scanner, InlineParserContext context) {
        boolean isCitation = brackets.destination() == null
                && brackets.marker() == null
                && brackets.text(scanner).startsWith("@");
        if (!isCitation) {
            return LinkResult.none();
        }
        String keys = brackets.text(scanner).substring(1).strip();
        return LinkResult.replaceWith(new Citation(List.of(SEPARATOR.split(keys))), scanner.position());
    }
}
