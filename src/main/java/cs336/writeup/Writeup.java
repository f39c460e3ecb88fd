package cs336.writeup;

import cs336.charts.Svg;
import cs336.charts.Typeface;
import cs336.numbers.Expression;
import cs336.numbers.MeasuredTable;
import cs336.numbers.MeasurementOrigins;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.References;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.commonmark.node.AbstractVisitor;
import org.commonmark.node.Code;
import org.commonmark.node.FencedCodeBlock;
import org.commonmark.node.Image;
import org.commonmark.node.Link;
import org.commonmark.node.ListBlock;
import org.commonmark.node.Node;
import org.commonmark.node.Paragraph;
import org.commonmark.node.Text;
import org.commonmark.renderer.NodeRenderer;
import org.commonmark.renderer.html.HtmlNodeRendererContext;

/**
 * The writeup: chapters in Markdown, in which every number is a reference into measurements, as one self-contained HTML
 * page and as a PDF.
 *
 * <p>A folder holds {@code writeup.md} and, in the order of their names, further chapters {@code *.md}. The first
 * begins with
 *
 * <pre>
 * ---
 * title: …
 * machine: h200                       # whose measurements, a folder's name
 * measurements: ../data/measurements  # where machines' folders are; this is the default
 * define:                             # names for expressions, optional
 *   xl: benchmarking_script[size=xl, context=512]
 * ---
 * </pre>
 *
 * <p>In the text, <code>{{xl[metric=forward] : %.1f ms}}</code> is a number (see {@link MeasurementQuery} and
 * {@link Expression}), a fenced block {@code table} a table (see {@link MeasuredTable}), a picture in a paragraph of
 * its own a numbered figure, and a link to that picture, or to {@code #table-name}, its number. Whatever is missing,
 * ambiguous or misspelt stops the build, with file and line.
 */
public final class Writeup {
    private final String title;
    private final String html;
    private final String body;

    private Writeup(String title, String html, String body) {
        this.title = title;
        this.html = html;
        this.body = body;
    }

    /**
     * Reads and resolves a writeup.
     *
     * @param folder with {@code writeup.md}
     * @throws WriteupException with all that is wrong, a line each
     * @throws IOException where a file cannot be read
     */
    public static Writeup read(Path folder) throws IOException, WriteupException {
        return new WriteupBuilder(folder).build();
    }

    /** The title of the front matter. */
    public String title() {
        return title;
    }

    /** A page that needs nothing beside itself. */
    public String html() {
        return html;
    }

    /** The same on A4 pages; equal content gives equal bytes. */
    public byte[] pdf() {
        return Pdf.render(title, Page.forPrint(title, body));
    }

    /** Writes {@code writeup.html} and {@code writeup.pdf} into a folder, which is made where missing. */
    public void save(Path folder) throws IOException {
        Files.createDirectories(folder);
        Files.writeString(folder.resolve("writeup.html"), html());
        Files.write(folder.resolve("writeup.pdf"), pdf());
    }

    private record Chapter(Path file, Node document) {}

    /** A numbered thing that links lead to. */
    private record Target(String id, int number) {}

    private static final class WriteupBuilder {
        private final Path folder;
        private final List<String> problems = new ArrayList<>();
        private final Map<String, Target> figures = new LinkedHashMap<>();
        private final Map<String, Target> tableTargets = new LinkedHashMap<>();
        private final Map<FencedCodeBlock, MeasuredTable> tables = new LinkedHashMap<>();
        private final MarkdownHtml markdown;
        private Path current;

        WriteupBuilder(Path folder) {
            this.folder = folder;
            markdown = new MarkdownHtml(folder, List.of(Blocks::new));
        }

        Writeup build() throws IOException, WriteupException {
            var files = new ArrayList<Path>();
            Path first = folder.resolve("writeup.md");
            if (!Files.isRegularFile(first)) {
                throw new WriteupException(List.of(first + ": no such file"));
            }
            files.add(first);
            try (var entries = Files.list(folder)) {
                entries.filter(path -> path.toString().endsWith(".md") && !path.equals(first))
                        .sorted()
                        .forEach(files::add);
            }
            FrontMatter front = FrontMatter.read(first);
            MeasurementQuery numbers = front.numbers();
            var chapters = new ArrayList<Chapter>();
            for (Path file : files) {
                current = file;
                String text = file.equals(first) ? front.text() : Files.readString(file);
                String resolved = References.replace(text, (line, reference) -> number(numbers, line, reference));
                Node document = markdown.parse(resolved);
                chapters.add(new Chapter(file, document));
                collect(document, numbers);
            }
            var body = new StringBuilder();
            for (Chapter chapter : chapters) {
                current = chapter.file();
                try {
                    body.append(markdown.render(chapter.document()));
                } catch (MarkdownException e) {
                    problem(e.line(), e.getMessage());
                }
            }
            if (!problems.isEmpty()) {
                throw new WriteupException(problems);
            }
            body.append(MeasurementOrigins.html(numbers));
            return new Writeup(front.title(), Page.forScreen(front.title(), body.toString()), body.toString());
        }

        private String number(MeasurementQuery numbers, int line, String reference) {
            try {
                if (reference == null) {
                    throw new IllegalArgumentException("\"}}\" is missing on the line");
                }
                return numbers.text(reference);
            } catch (IllegalArgumentException e) {
                problem(line, "{{" + (reference == null ? "" : reference + "}}") + ": " + e.getMessage());
                return "";
            }
        }

        private void problem(int line, String what) {
            problems.add(current + ":" + line + ": " + what);
        }

        /** Gives figures and tables their numbers before anything is written, since links may come first. */
        private void collect(Node document, MeasurementQuery numbers) {
            document.accept(new AbstractVisitor() {
                @Override
                public void visit(Text text) {
                    requireLetters(Typeface.REGULAR, text.getLiteral(), text);
                }

                @Override
                public void visit(Code code) {
                    requireLetters(Typeface.MONO, code.getLiteral(), code);
                }

                @Override
                public void visit(Paragraph paragraph) {
                    if (picture(paragraph) != null) {
                        String address = picture(paragraph).getDestination();
                        String name = address.replaceAll(".*/|\\.[^.]*$", "");
                        var target = new Target("figure-" + name, figures.size() + 1);
                        if (figures.put(address, target) != null) {
                            problem(Maths.line(paragraph), "figure " + address + " is shown twice");
                        }
                    }
                    visitChildren(paragraph);
                }

                @Override
                public void visit(FencedCodeBlock block) {
                    if (!block.getInfo().equals("table")) {
                        requireLetters(Typeface.MONO, block.getLiteral().replaceAll("\\s", " "), block);
                        return;
                    }
                    try {
                        MeasuredTable table = MeasuredTable.read(block.getLiteral(), numbers);
                        int number = tables.size() + 1;
                        tables.put(block, table);
                        String id = "table-" + (table.name().isEmpty() ? number : table.name());
                        if (tableTargets.put("#" + id, new Target(id, number)) != null) {
                            problem(Maths.line(block), "two tables are named " + table.name());
                        }
                    } catch (IllegalArgumentException e) {
                        problem(Maths.line(block), "table: " + e.getMessage());
                    }
                }
            });
        }

        private void requireLetters(Typeface face, String text, Node node) {
            int unknown = face.unknownCharacter(text);
            if (unknown >= 0) {
                problem(
                        Maths.line(node),
                        String.format(
                                "%s has no letter %c (U+%04X); write it as a formula",
                                face.family(), unknown, unknown));
            }
        }

        private static Image picture(Paragraph paragraph) {
            Node child = paragraph.getFirstChild();
            return child instanceof Image image && child.getNext() == null ? image : null;
        }

        /** Figures, tables and links to them; all else as usual. */
        private final class Blocks implements NodeRenderer {
            private final HtmlNodeRendererContext context;

            Blocks(HtmlNodeRendererContext context) {
                this.context = context;
            }

            @Override
            public Set<Class<? extends Node>> getNodeTypes() {
                return Set.of(Paragraph.class, FencedCodeBlock.class, Link.class);
            }

            @Override
            public void render(Node node) {
                if (node instanceof Paragraph paragraph) {
                    Image picture = picture(paragraph);
                    if (picture != null) {
                        figure(picture);
                    } else {
                        paragraph(paragraph);
                    }
                } else if (node instanceof FencedCodeBlock block) {
                    MeasuredTable table = tables.get(block);
                    if (table != null) {
                        table(block, table);
                    } else {
                        html("<pre><code>" + Svg.escape(block.getLiteral()) + "</code></pre>");
                    }
                } else if (node instanceof Link link) {
                    link(link);
                }
            }

            private void paragraph(Paragraph paragraph) {
                boolean tight = paragraph.getParent().getParent() instanceof ListBlock list && list.isTight();
                if (!tight) {
                    html("<p>");
                }
                children(paragraph);
                if (!tight) {
                    context.getWriter().raw("</p>");
                    context.getWriter().line();
                }
            }

            private void figure(Image picture) {
                String address = picture.getDestination();
                Target target = figures.get(address);
                int line = Maths.line(picture);
                String source = markdown.inlined(address, line);
                String alternative = MarkdownHtml.plainText(picture);
                if (alternative.isBlank()) {
                    throw new MarkdownException(
                            line, "figure " + address + " has no caption: ![caption](" + address + ")");
                }
                html("<figure id=\"" + target.id() + "\">");
                html("<img src=\"" + source + "\" alt=\"" + Svg.escape(alternative) + "\" />");
                html("<figcaption><b>Figure " + target.number() + ".</b> ");
                children(picture);
                html("</figcaption>");
                html("</figure>");
            }

            private void table(FencedCodeBlock block, MeasuredTable table) {
                String id = "table-" + (table.name().isEmpty() ? numberOf(block) : table.name());
                String caption = "<b>Table " + numberOf(block) + ".</b> " + captionHtml(table.caption());
                html("<figure id=\"" + id + "\" class=\"measured\">");
                html("<figcaption>" + caption + "</figcaption>");
                html(table.cells().html());
                html("</figure>");
            }

            private int numberOf(FencedCodeBlock block) {
                return new ArrayList<>(tables.keySet()).indexOf(block) + 1;
            }

            /** Captions are Markdown of one paragraph. */
            private String captionHtml(String caption) {
                return new MarkdownHtml(folder).fragment(caption).strip().replaceAll("^<p>|</p>$", "");
            }

            private void link(Link link) {
                String address = link.getDestination();
                Target target = figures.getOrDefault(address, tableTargets.get(address));
                if (target != null) {
                    context.getWriter().raw("<a href=\"#" + target.id() + "\">");
                    children(link);
                    context.getWriter().raw("\u00a0" + target.number() + "</a>");
                } else if (address.matches("https?:.*") || address.startsWith("#") && !address.startsWith("#table-")) {
                    context.getWriter().raw("<a href=\"" + Svg.escape(address) + "\">");
                    children(link);
                    context.getWriter().raw("</a>");
                } else if (!address.startsWith("#")
                        && Files.exists(folder.resolve(address.replaceAll("#.*", "")))
                        && !address.matches(".*\\.(svg|png|jpe?g)")) {
                    // A file of the project: there for a reader of the source, out of reach of the built page.
                    children(link);
                } else {
                    throw new MarkdownException(
                            Maths.line(link), "link to " + address + " leads to no figure, table or file");
                }
            }

            private void html(String text) {
                context.getWriter().raw(text);
            }

            private void children(Node node) {
                for (Node child = node.getFirstChild(); child != null; ) {
                    Node next = child.getNext();
                    context.render(child);
                    child = next;
                }
            }
        }
    }
}
