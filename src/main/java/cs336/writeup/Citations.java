package cs336.writeup;

import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import org.commonmark.node.CustomNode;
import org.commonmark.node.Text;
import org.commonmark.parser.Parser;
import org.commonmark.parser.beta.InlineContentParser;
import org.commonmark.parser.beta.InlineContentParserFactory;
import org.commonmark.parser.beta.InlineParserState;
import org.commonmark.parser.beta.ParsedInline;
import org.commonmark.parser.beta.Position;
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

        /** Removes the opening bracket, which is the end of the text before this node. */
        void removeBracket() {
            if (getPrevious() instanceof Text text && text.getLiteral().endsWith("[")) {
                text.setLiteral(text.getLiteral().substring(0, text.getLiteral().length() - 1));
            }
        }
    }

    @Override
    public void extend(Parser.Builder builder) {
        builder.customInlineContentParserFactory(new CitationFactory());
    }

    private static final class CitationFactory implements InlineContentParserFactory {
        @Override
        public Set<Character> getTriggerCharacters() {
            return Set.of('@'); // CommonMark does not allow extensions for "["
        }

        @Override
        public InlineContentParser create() {
            return Citations::parse;
        }
    }

    private static ParsedInline parse(InlineParserState state) {
        Scanner scanner = state.scanner();
        boolean begins = scanner.peekPreviousCodePoint() == '[';
        scanner.next();
        Position start = scanner.position();
        if (!begins) {
            return ParsedInline.none();
        }
        if (scanner.find(']') < 0) {
            return ParsedInline.none();
        }
        String keys = scanner.getSource(start, scanner.position()).getContent();
        scanner.next();
        return ParsedInline.of(new Citation(List.of(SEPARATOR.split(keys.strip()))), scanner.position());
    }
}
