package cs336.writeup;

import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.commonmark.node.Block;
import org.commonmark.node.CustomBlock;
import org.commonmark.node.CustomNode;
import org.commonmark.node.Node;
import org.commonmark.node.SourceSpan;
import org.commonmark.parser.Parser;
import org.commonmark.parser.SourceLine;
import org.commonmark.parser.SourceLines;
import org.commonmark.parser.beta.InlineContentParser;
import org.commonmark.parser.beta.InlineContentParserFactory;
import org.commonmark.parser.beta.InlineParserState;
import org.commonmark.parser.beta.ParsedInline;
import org.commonmark.parser.beta.Position;
import org.commonmark.parser.beta.Scanner;
import org.commonmark.parser.block.AbstractBlockParser;
import org.commonmark.parser.block.AbstractBlockParserFactory;
import org.commonmark.parser.block.BlockContinue;
import org.commonmark.parser.block.BlockStart;
import org.commonmark.parser.block.MatchedBlockParser;
import org.commonmark.parser.block.ParserState;
import org.commonmark.renderer.NodeRenderer;
import org.commonmark.renderer.html.HtmlNodeRendererContext;

/**
 * A CommonMark extension for formulas: {@code $…$} within a line, {@code $$…$$} on separate lines. With an id after the
 * closing dollar signs, {@code $$…$$ {#eq-name}}, a formula is an equation that a writeup numbers.
 *
 * <p>As in Pandoc, the opening dollar sign must not precede a space, and the closing one must neither follow a space
 * nor precede a digit. Thus "between $5 and $6" is not a formula. Code contains no formulas, and {@code \$} is a dollar
 * sign.
 */
final class Maths implements Parser.ParserExtension {
    /** The end of a formula on separate lines, with the id of an equation. */
    private static final Pattern CLOSING = Pattern.compile("\\$\\$(?:\\s*\\{#(eq-[\\w-]+)\\})?$");

    /** A formula within a line. */
    static final class InlineFormula extends CustomNode {
        private final String tex;
        private final boolean display;

        InlineFormula(String tex, boolean display) {
            this.tex = tex;
            this.display = display;
        }
    }

    /** A formula on separate lines. */
    static final class DisplayFormula extends CustomBlock {
        private String tex = "";
        private boolean closed;
        private String id;
        private String number;

        /** Returns the id of an equation; null if the formula has no id. */
        String id() {
            return id;
        }

        /** Returns the number to show next to an equation, or null. */
        String number() {
            return number;
        }

        /** Sets the number to show next to an equation. */
        void setNumber(String text) {
            number = text;
        }
    }

    @Override
    public void extend(Parser.Builder builder) {
        builder.customInlineContentParserFactory(new InlineFormulaFactory())
                .customBlockParserFactory(new DisplayFormulaFactory());
    }

    private static final class InlineFormulaFactory implements InlineContentParserFactory {
        @Override
        public Set<Character> getTriggerCharacters() {
            return Set.of('$');
        }

        @Override
        public InlineContentParser create() {
            return Maths::parseInline;
        }
    }

    private static ParsedInline parseInline(InlineParserState state) {
        Scanner scanner = state.scanner();
        boolean display = scanner.matchMultiple('$') >= 2;
        char first = scanner.peek();
        if (first == Scanner.END || !display && Character.isWhitespace(first)) {
            return ParsedInline.none();
        }
        Position start = scanner.position();
        char previous = ' ';
        while (true) {
            char c = scanner.peek();
            if (c == Scanner.END || c == '`') {
                return ParsedInline.none();
            }
            if (c == '\\') {
                scanner.next();
                previous = scanner.peek();
                if (previous != Scanner.END) {
                    scanner.next();
                }
                continue;
            }
            if (c == '$') {
                SourceLines content = scanner.getSource(start, scanner.position());
                int closing = scanner.matchMultiple('$');
                boolean closes = display
                        ? closing == 2
                        : closing == 1 && !Character.isWhitespace(previous) && !Character.isDigit(scanner.peek());
                if (!closes) {
                    return ParsedInline.none();
                }
                return ParsedInline.of(new InlineFormula(content.getContent(), display), scanner.position());
            }
            previous = c;
            scanner.next();
        }
    }

    private static final class DisplayFormulaFactory extends AbstractBlockParserFactory {
        @Override
        public BlockStart tryStart(ParserState state, MatchedBlockParser matched) {
            CharSequence line = state.getLine().getContent();
            int start = state.getNextNonSpaceIndex();
            String rest = line.subSequence(start, line.length()).toString().stripTrailing();
            int closing = rest.indexOf("$$", 2);
            boolean opens = rest.startsWith("$$")
                    && (closing < 0
                            || CLOSING.matcher(rest)
                                    .region(closing, rest.length())
                                    .matches());
            if (state.getIndent() >= 4 || !opens) {
                return BlockStart.none();
            }
            return BlockStart.of(new DisplayFormulaParser()).atIndex(start + 2);
        }
    }

    private static final class DisplayFormulaParser extends AbstractBlockParser {
        private final DisplayFormula block = new DisplayFormula();
        private final StringBuilder tex = new StringBuilder();
        private boolean closed;

        @Override
        public Block getBlock() {
            return block;
        }

        @Override
        public BlockContinue tryContinue(ParserState state) {
            return closed ? BlockContinue.none() : BlockContinue.atIndex(state.getIndex());
        }

        @Override
        public void addLine(SourceLine line) {
            String text = line.getContent().toString().stripTrailing();
            Matcher closing = CLOSING.matcher(text);
            closed = closing.find();
            block.id = closed ? closing.group(1) : null;
            tex.append(closed ? text.substring(0, closing.start()) : text).append('\n');
        }

        @Override
        public void closeBlock() {
            block.tex = tex.toString();
            block.closed = closed;
        }
    }

    /** A renderer of formulas as SVG. */
    static final class FormulaRenderer implements NodeRenderer {
        private final HtmlNodeRendererContext context;

        FormulaRenderer(HtmlNodeRendererContext context) {
            this.context = context;
        }

        @Override
        public Set<Class<? extends Node>> getNodeTypes() {
            return Set.of(InlineFormula.class, DisplayFormula.class);
        }

        @Override
        public void render(Node node) {
            var html = context.getWriter();
            try {
                if (node instanceof InlineFormula inline) {
                    html.raw(Formula.svg(inline.tex, inline.display));
                } else if (node instanceof DisplayFormula display) {
                    if (!display.closed) {
                        throw new IllegalArgumentException("formula has an opening $$ but no closing $$");
                    }
                    html.line();
                    html.raw(html(display));
                    html.line();
                }
            } catch (IllegalArgumentException e) {
                throw new MarkdownException(line(node), e.getMessage());
            }
        }
    }

    private static String html(DisplayFormula formula) {
        String svg = Formula.svg(formula.tex, true);
        if (formula.number == null) {
            return "<div class=\"display\">" + svg + "</div>";
        }
        return "<table class=\"equation\" role=\"presentation\" id=\"" + formula.id + "\"><tr><td></td><td>" + svg
                + "</td><td>" + formula.number + "</td></tr></table>";
    }

    /** Returns the first line of a node, from 1; 0 if unknown. */
    static int line(Node node) {
        for (Node at = node; at != null; at = at.getParent()) {
            List<SourceSpan> spans = at.getSourceSpans();
            if (!spans.isEmpty()) {
                return spans.get(0).getLineIndex() + 1;
            }
        }
        return 0;
    }
}
