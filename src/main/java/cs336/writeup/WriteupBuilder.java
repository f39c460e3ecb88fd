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
import java.util.List;
import org.commonmark.node.AbstractVisitor;
import org.commonmark.node.Code;
import org.commonmark.node.FencedCodeBlock;
import org.commonmark.node.Image;
import org.commonmark.node.Node;
import org.commonmark.node.Paragraph;
import org.commonmark.node.Text;

/** Builds a {@link Writeup} from its folder and collects the errors of all chapters. */
final class WriteupBuilder {
    private final Path folder;
    private final List<String> problems = new ArrayList<>();
    private final CrossReferences targets = new CrossReferences();
    private final MarkdownHtml markdown;
    private Path currentFile;

    private record Chapter(Path file, Node document) {}

    /** Creates a builder of the writeup in a folder. */
    WriteupBuilder(Path folder) {
        this.folder = folder;
        markdown = new MarkdownHtml(folder, List.of(context -> new NumberedBlockRenderer(context, folder, targets)));
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
                    .sorted()
                    .forEach(files::add);
        }
        FrontMatter front = FrontMatter.read(first);
        MeasurementQuery numbers = front.numbers();
        var chapters = new ArrayList<Chapter>();
        for (Path file : files) {
            currentFile = file;
            String text = file.equals(first) ? front.text() : TextFile.read(file);
            String resolved = References.replace(text, (line, reference) -> number(numbers, line, reference));
            Node document = markdown.parse(resolved);
            chapters.add(new Chapter(file, document));
            collect(document, numbers);
        }
        var body = new StringBuilder();
        for (Chapter chapter : chapters) {
            currentFile = chapter.file();
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
                throw new IllegalArgumentException("\"}}\" is missing on this line");
            }
            return numbers.text(reference);
        } catch (IllegalArgumentException e) {
            problem(line, "{{" + (reference == null ? "" : reference + "}}") + ": " + e.getMessage());
            return "";
        }
    }

    private void problem(int line, String message) {
        problems.add(currentFile + ":" + line + ": " + message);
    }

    /** Numbers the figures and tables of a chapter before any chapter is rendered, because links may precede them. */
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
                if (image != null && !targets.addFigure(image.getDestination())) {
                    problem(Maths.line(paragraph), "figure " + image.getDestination() + " must not be shown twice");
                }
                visitChildren(paragraph);
            }

            @Override
            public void visit(FencedCodeBlock block) {
                if (!block.getInfo().equals("table")) {
                    requireGlyphs(Typeface.MONO, block.getLiteral().replaceAll("\\s", " "), block);
                    return;
                }
                try {
                    MeasuredTable table = MeasuredTable.read(block.getLiteral(), numbers);
                    if (!targets.addTable(block, table)) {
                        problem(Maths.line(block), "two tables have the name " + table.name());
                    }
                } catch (IllegalArgumentException e) {
                    problem(Maths.line(block), "table: " + e.getMessage());
                }
            }
        });
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
