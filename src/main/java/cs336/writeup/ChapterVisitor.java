package cs336.writeup;

import cs336.charts.Typeface;
import cs336.numbers.MeasuredTable;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.WrittenTable;
import java.util.List;
import java.util.Set;
import java.util.function.BiFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.commonmark.ext.gfm.tables.TableBlock;
import org.commonmark.ext.gfm.tables.TableCell;
import org.commonmark.node.AbstractVisitor;
import org.commonmark.node.Code;
import org.commonmark.node.CustomBlock;
import org.commonmark.node.CustomNode;
import org.commonmark.node.FencedCodeBlock;
import org.commonmark.node.Heading;
import org.commonmark.node.Image;
import org.commonmark.node.Link;
import org.commonmark.node.ListItem;
import org.commonmark.node.Node;
import org.commonmark.node.Paragraph;
import org.commonmark.node.Text;

/**
 * A visitor that numbers the figures, tables, equations and works of a chapter, collects its links, and checks its
 * headings, table headers and characters. It visits all chapters before the first is rendered, because links may
 * precede their targets.
 */
final class ChapterVisitor extends AbstractVisitor {
    private static final Pattern HEADING_NUMBER = Pattern.compile("(Appendix )?(\\d+)\\b.*");
    private static final Pattern WORK = Pattern.compile("\\[([\\w-]+)\\] ");
    private static final Pattern ADDRESS = Pattern.compile("https?://\\S+$");

    private static final Pattern CAPTION = Pattern.compile("(?m)^caption: *\\S");

    /** A name such as {@code bucket_mb} or {@code forward-attention-softmax}. */
    private static final Pattern STORED_NAME =
            Pattern.compile("[a-z0-9]+(?:-[a-z0-9]+)+|(?:.* )?[a-z0-9]+(?:_[a-z0-9]+)+(?: .*)?");

    /** Terms of the field that look like stored names. */
    private static final Set<String> TERMS = Set.of("all-reduce", "all-gather", "reduce-scatter", "all-to-all");

    private final ChapterFile file;
    private final MeasurementQuery numbers;
    private final BiFunction<Integer, String, String> number;
    private final MarkdownHtml markdown;
    private final CrossReferences targets;
    private final Mentions mentions;
    private final List<String> problems;
    private FencedCodeBlock table; // the table whose caption or rows are being visited; otherwise null

    /**
     * Creates a visitor.
     *
     * @param number returns the text of a reference, or reports it as a problem of its line
     */
    ChapterVisitor(
            ChapterFile file,
            MeasurementQuery numbers,
            BiFunction<Integer, String, String> number,
            MarkdownHtml markdown,
            CrossReferences targets,
            Mentions mentions,
            List<String> problems) {
        this.file = file;
        this.numbers = numbers;
        this.number = number;
        this.markdown = markdown;
        this.targets = targets;
        this.mentions = mentions;
        this.problems = problems;
    }

    @Override
    public void visit(Text text) {
        requireGlyphs(Typeface.REGULAR, text.getLiteral(), text);
    }

    @Override
    public void visit(Code code) {
        requireGlyphs(Typeface.MONO, code.getLiteral(), code);
    }

    @Override
    public void visit(Paragraph paragraph) {
        Image image = NumberedBlockRenderer.figureImage(paragraph);
        if (image != null) {
            mentions.addFigure(mention(paragraph, image.getDestination()));
            if (!targets.addFigure(image.getDestination())) {
                problem(paragraph, "figure " + image.getDestination() + " must not be shown twice");
            }
        }
        visitChildren(paragraph);
    }

    @Override
    public void visit(Heading heading) {
        if (heading.getLevel() == 2) {
            requireNumber(heading);
        }
        visitChildren(heading);
    }

    @Override
    public void visit(ListItem item) {
        if (file.isReferences()) {
            addWork(item);
        }
        visitChildren(item);
    }

    @Override
    public void visit(Link link) {
        mentions.addLink(mention(link, link.getDestination()));
        visitChildren(link);
    }

    @Override
    public void visit(CustomNode node) {
        if (node instanceof TableCell cell && cell.isHeader()) {
            requireWords(cell, List.of(MarkdownHtml.plainText(cell)));
        } else if (node instanceof Citations.Citation citation) {
            citation.keys().forEach(key -> mentions.addCitation(mention(node, key)));
        }
        visitChildren(node);
    }

    @Override
    public void visit(CustomBlock block) {
        if (block instanceof TableBlock && table == null) {
            problem(block, "a table must be in a block ```table with a line \"caption: …\"");
        }
        if (block instanceof Maths.DisplayFormula formula && formula.id() != null) {
            formula.setNumber(targets.addEquation(formula.id()));
            if (formula.number() == null) {
                problem(block, "two equations have the id " + formula.id());
            }
        }
        visitChildren(block);
    }

    @Override
    public void visit(FencedCodeBlock block) {
        if (!block.getInfo().equals("table")) {
            requireGlyphs(Typeface.MONO, block.getLiteral().replaceAll("\\s", " "), block);
            return;
        }
        if (!CAPTION.matcher(block.getLiteral()).find()) {
            problem(block, "a table must have a line \"caption: …\"");
            return;
        }
        try {
            if (WrittenTable.isWritten(block.getLiteral())) {
                addWritten(block);
            } else {
                addMeasured(block);
            }
        } catch (IllegalArgumentException e) {
            problem(block, "table: " + e.getMessage());
        }
    }

    private void addMeasured(FencedCodeBlock block) {
        MeasuredTable measured = MeasuredTable.read(block.getLiteral(), numbers);
        requireWords(block, measured.cells().headers());
        Node caption = markdown.parse(measured.caption());
        add(block, new CrossReferences.TableContent(measured.name(), caption, measured.cells(), null));
        visitPart(block, caption);
    }

    private void addWritten(FencedCodeBlock block) {
        WrittenTable written =
                WrittenTable.read(block.getLiteral(), (row, reference) -> number.apply(line(block) + row, reference));
        Node caption = markdown.parse(written.caption());
        Node rows = markdown.parse(written.markdown());
        add(block, new CrossReferences.TableContent(written.name(), caption, null, rows));
        visitPart(block, caption);
        visitPart(block, rows);
    }

    private void add(FencedCodeBlock block, CrossReferences.TableContent described) {
        if (!targets.addTable(block, described)) {
            problem(block, "two tables have the name " + described.name());
        }
    }

    /** Visits a caption or rows of a block; their line is that of the block. */
    private void visitPart(FencedCodeBlock block, Node part) {
        table = block;
        part.accept(this);
        table = null;
    }

    private int line(Node node) {
        return Maths.line(table == null ? node : table);
    }

    private void problem(Node node, String message) {
        problems.add(file.path() + ":" + line(node) + ": " + message);
    }

    private Mentions.Mention mention(Node node, String target) {
        return new Mentions.Mention(file.path(), line(node), target);
    }

    /** Checks that the headers of a table are words and not names of stored columns or values. */
    private void requireWords(Node node, List<String> headers) {
        for (String header : headers) {
            for (String part : header.split(", ")) {
                if (STORED_NAME.matcher(part).matches() && !TERMS.contains(part)) {
                    problem(
                            node,
                            "header \"" + part + "\" is a stored name; write it in words: labels: " + part + " = …");
                }
            }
        }
    }

    /** Checks that the number of a chapter's or an appendix's heading is that of its file. */
    private void requireNumber(Heading heading) {
        Matcher match = HEADING_NUMBER.matcher(MarkdownHtml.plainText(heading));
        boolean matches = match.matches()
                ? Integer.parseInt(match.group(2)) == file.number() && (match.group(1) != null) == file.isAppendix()
                : !file.isAppendix();
        if (!matches) {
            problem(
                    heading,
                    "the heading must begin with \"" + (file.isAppendix() ? "Appendix " : "") + file.number()
                            + "\", the number in the file's name");
        }
    }

    /** Numbers a work of the list of references: {@code - [key] Authors. *Title*. …}. */
    private void addWork(ListItem item) {
        Text text = item.getFirstChild() != null && item.getFirstChild().getFirstChild() instanceof Text t ? t : null;
        Matcher work = WORK.matcher(text == null ? "" : text.getLiteral());
        if (!work.lookingAt()) {
            problem(item, "a reference must begin with its key, as in \"- [dao2022] \"");
            return;
        }
        String key = work.group(1);
        if (!targets.addWork(key)) {
            problem(item, "two references have the key " + key);
        }
        mentions.addWork(mention(item, key));
        markdown.setId(item, NumberedBlockRenderer.workId(key));
        text.setLiteral("[" + targets.work(key) + "] " + text.getLiteral().substring(work.end()));
        if (text.getParent().getLastChild() instanceof Text end) {
            linkAddress(end);
        }
    }

    /** Turns the address at the end of a reference into a link. */
    private static void linkAddress(Text end) {
        Matcher address = ADDRESS.matcher(end.getLiteral());
        if (address.find()) {
            var link = new Link(address.group(), null);
            link.appendChild(new Text(address.group()));
            end.setLiteral(end.getLiteral().substring(0, address.start()));
            end.insertAfter(link);
        }
    }

    private void requireGlyphs(Typeface face, String text, Node node) {
        int unknown = face.unknownCharacter(text);
        if (unknown >= 0) {
            problem(
                    node,
                    String.format(
                            "%s has no character %c (U+%04X); write it as a formula", face.family(), unknown, unknown));
        }
    }
}
