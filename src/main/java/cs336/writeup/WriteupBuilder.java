package cs336.writeup;

import cs336.bench.TextFile;
import cs336.charts.Typeface;
import cs336.numbers.MeasuredTable;
import cs336.numbers.MeasurementOrigins;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.References;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
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
import org.commonmark.renderer.NodeRenderer;
import org.commonmark.renderer.html.HtmlNodeRendererContext;

/** Builds a {@link Writeup} from its folder and collects the errors of all chapters. */
final class WriteupBuilder {
    private static final String REFERENCES = "references.md";
    private static final Pattern FILE_NUMBER = Pattern.compile("(appendix-)?(\\d+)-.*");
    private static final Pattern HEADING_NUMBER = Pattern.compile("(Appendix )?(\\d+)\\b.*");
    private static final Pattern ADDRESS = Pattern.compile("https?://\\S+$");
    private static final Pattern WORK = Pattern.compile("\\[([\\w-]+)\\] ");
    /** A name such as {@code bucket_mb} or {@code forward-attention-softmax}. */
    private static final Pattern STORED_NAME =
            Pattern.compile("[a-z0-9]+(?:-[a-z0-9]+)+|(?:.* )?[a-z0-9]+(?:_[a-z0-9]+)+(?: .*)?");

    /** Terms of the field that look like stored names. */
    private static final Set<String> TERMS = Set.of("all-reduce", "all-gather", "reduce-scatter", "all-to-all");

    private static final Pattern ID = Pattern.compile(" id=\"([^\"]+)\"");

    private final Path folder;
    private final List<String> problems = new ArrayList<>();
    private final CrossReferences targets = new CrossReferences();
    private final MarkdownHtml markdown;
    private Path currentFile;

    private record Chapter(Path file, Node document) {}

    /** A place in the text that refers to a figure, a work or a heading. */
    private record Mention(Path file, int line, String target) {}

    private final List<Mention> figures = new ArrayList<>();
    private final List<Mention> works = new ArrayList<>();
    private final List<Mention> citations = new ArrayList<>();
    private final List<Mention> anchors = new ArrayList<>();

    /** Creates a builder of the writeup in a folder. */
    WriteupBuilder(Path folder) {
        this.folder = folder;
        markdown = new MarkdownHtml(folder, List.of(this::renderer));
    }

    private NodeRenderer renderer(HtmlNodeRendererContext context) {
        return new NumberedBlockRenderer(context, folder, targets, markdown);
    }

    /**
     * Builds the writeup.
     *
     * @throws WriteupException if the writeup has errors
     */
    Writeup build() throws IOException, WriteupException {
        var files = new ArrayList<Path>();
        Path first = folder.resolve("writeup.md");
        if (!Files.isRegularFile(first)) {
            throw new WriteupException(List.of(first + ": no such file"));
        }
        files.add(first);
        try (var entries = Files.list(folder)) {
            entries.filter(path -> path.toString().endsWith(".md") && !path.equals(first))
                    .sorted(Comparator.comparingInt(WriteupBuilder::part).thenComparing(Comparator.naturalOrder()))
                    .forEach(files::add);
        }
        FrontMatter front = FrontMatter.read(first);
        MeasurementQuery numbers = front.numbers();
        var chapters = new ArrayList<Chapter>();
        for (Path file : files) {
            currentFile = file;
            Matcher name = FILE_NUMBER.matcher(file.getFileName().toString());
            boolean isAppendix = name.matches() && name.group(1) != null;
            targets.beginAppendix(isAppendix ? Integer.parseInt(name.group(2)) : 0);
            String text = file.equals(first) ? front.text() : TextFile.read(file);
            String resolved = References.replace(text, (line, reference) -> number(numbers, line, reference));
            Node document = markdown.parse(resolved);
            chapters.add(new Chapter(file, document));
            collect(document, numbers);
        }
        checkMentions();
        var parts = new ArrayList<String>();
        for (Chapter chapter : chapters) {
            currentFile = chapter.file();
            try {
                parts.add(markdown.render(chapter.document()));
            } catch (MarkdownException e) {
                problem(e.line(), e.getMessage());
            }
        }
        parts.add(MeasurementOrigins.html(numbers));
        String rest = String.join("", parts.subList(1, parts.size()));
        checkAnchors(parts.get(0) + rest);
        if (!problems.isEmpty()) {
            throw new WriteupException(problems);
        }
        String body = parts.get(0) + Page.contents(rest) + rest;
        return new Writeup(front.title(), Page.forScreen(front.title(), body), body);
    }

    /** Returns the position of a file: chapters in the order of their numbers, references, appendices. */
    private static int part(Path file) {
        String name = file.getFileName().toString();
        return name.startsWith("appendix-") ? 2 : name.equals(REFERENCES) ? 1 : 0;
    }

    /** Reports figures and works that nothing refers to, and citations of unknown works. */
    private void checkMentions() {
        for (Mention figure : figures) {
            if (!targets.isUsed(figure.target())) {
                problem(figure, "no text refers to the figure: add [Figure](" + figure.target() + ")");
            }
        }
        for (Mention work : works) {
            if (!targets.isUsed(work.target())) {
                problem(work, "no text cites the work: add [@" + work.target() + "] or remove it");
            }
        }
        for (Mention citation : citations) {
            if (targets.work(citation.target()) == null) {
                problem(citation, "[@" + citation.target() + "] is not in " + REFERENCES);
            }
        }
    }

    /** Reports links to ids that the page does not contain. */
    private void checkAnchors(String body) {
        Set<String> ids =
                ID.matcher(body).results().map(match -> "#" + match.group(1)).collect(Collectors.toSet());
        for (Mention anchor : anchors) {
            if (!ids.contains(anchor.target())) {
                problem(anchor, "link to " + anchor.target() + " leads to no heading, table or equation");
            }
        }
    }

    private String number(MeasurementQuery numbers, int line, String reference) {
        try {
            if (reference == null) {
                throw new IllegalArgumentException("\"}}\" is missing on this line");
            }
            return numbers.text(reference);
        } catch (IllegalArgumentException e) {
            problem(line, "{{" + (reference == null ? "" : reference + "}}") + ": " + e.getMessage());
            return "";
        }
    }

    private void problem(Mention mention, String message) {
        problems.add(mention.file() + ":" + mention.line() + ": " + message);
    }

    private Mention mention(Node node, String target) {
        return new Mention(currentFile, Maths.line(node), target);
    }

    private void problem(int line, String message) {
        problems.add(currentFile + ":" + line + ": " + message);
    }

    /**
     * Numbers the figures, tables, equations and works of a chapter before any chapter is rendered, because links may
     * precede them.
     */
    private void collect(Node document, MeasurementQuery numbers) {
        document.accept(new AbstractVisitor() {
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
                    figures.add(mention(paragraph, image.getDestination()));
                    if (!targets.addFigure(image.getDestination())) {
                        problem(Maths.line(paragraph), "figure " + image.getDestination() + " must not be shown twice");
                    }
                }
                visitChildren(paragraph);
            }

            @Override
            public void visit(Heading heading) {
                if (heading.getLevel() == 2) {
                    checkNumber(heading);
                }
                visitChildren(heading);
            }

            @Override
            public void visit(ListItem item) {
                if (currentFile.endsWith(REFERENCES)) {
                    addWork(item);
                }
                visitChildren(item);
            }

            @Override
            public void visit(CustomNode node) {
                if (node instanceof TableCell cell && cell.isHeader()) {
                    requireWords(cell, List.of(MarkdownHtml.plainText(cell)));
                }
                if (node instanceof Citations.Citation citation) {
                    citation.removeBracket();
                    citation.keys().forEach(key -> {
                        targets.use(key);
                        citations.add(mention(node, key));
                    });
                }
                visitChildren(node);
            }

            @Override
            public void visit(Link link) {
                targets.use(link.getDestination());
                if (link.getDestination().startsWith("#")) {
                    anchors.add(mention(link, link.getDestination()));
                }
                visitChildren(link);
            }

            @Override
            public void visit(CustomBlock block) {
                if (block instanceof Maths.DisplayFormula formula && formula.id() != null) {
                    String number = targets.addEquation(formula.id());
                    formula.setNumber(number);
                    if (number == null) {
                        problem(Maths.line(block), "two equations have the id " + formula.id());
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
                try {
                    MeasuredTable table = MeasuredTable.read(block.getLiteral(), numbers);
                    requireWords(block, table.cells().headers());
                    if (!targets.addTable(block, table)) {
                        problem(Maths.line(block), "two tables have the name " + table.name());
                    }
                } catch (IllegalArgumentException e) {
                    problem(Maths.line(block), "table: " + e.getMessage());
                }
            }
        });
    }

    /** Checks that the headers of a table are words and not names of stored columns or values. */
    private void requireWords(Node table, List<String> headers) {
        for (String header : headers) {
            for (String part : header.split(", ")) {
                if (STORED_NAME.matcher(part).matches() && !TERMS.contains(part)) {
                    problem(
                            Maths.line(table),
                            "header \"" + part + "\" is a stored name; write it in words: labels: " + part + " = …");
                }
            }
        }
    }

    /** Checks that the number of a chapter's or an appendix's heading is that of its file. */
    private void checkNumber(Heading heading) {
        Matcher number = HEADING_NUMBER.matcher(MarkdownHtml.plainText(heading));
        Matcher file = FILE_NUMBER.matcher(currentFile.getFileName().toString());
        boolean isAppendix = file.matches() && file.group(1) != null;
        if (!number.matches()) {
            if (isAppendix) {
                problem(Maths.line(heading), "the heading must begin with \"Appendix " + number(file) + "\"");
            }
        } else if (!file.matches() || number(file) != number(number) || isAppendix != (number.group(1) != null)) {
            problem(Maths.line(heading), "the number of the heading must be that of the file's name");
        }
    }

    private static int number(Matcher match) {
        return Integer.parseInt(match.group(2));
    }

    /** Numbers a work of the list of references: {@code - [key] Authors. *Title*. …}. */
    private void addWork(ListItem item) {
        Text text = item.getFirstChild() != null && item.getFirstChild().getFirstChild() instanceof Text t ? t : null;
        Matcher work = WORK.matcher(text == null ? "" : text.getLiteral());
        if (!work.lookingAt()) {
            problem(Maths.line(item), "a reference must begin with its key, as in \"- [dao2022] \"");
            return;
        }
        String key = work.group(1);
        if (!targets.addWork(key)) {
            problem(Maths.line(item), "two references have the key " + key);
        }
        works.add(mention(item, key));
        markdown.setId(item, NumberedBlockRenderer.workId(key));
        text.setLiteral("[" + targets.work(key) + "] " + text.getLiteral().substring(work.end()));
        if (text.getParent().getLastChild() instanceof Text end) {
            linkAddress(end);
        }
    }

    /** Makes a link of the address at the end of a reference. */
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
                    Maths.line(node),
                    String.format(
                            "%s has no character %c (U+%04X); write it as a formula", face.family(), unknown, unknown));
        }
    }
}
