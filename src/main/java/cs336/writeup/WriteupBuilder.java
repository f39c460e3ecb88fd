package cs336.writeup;

import cs336.numbers.MeasurementOrigins;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.References;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;
import org.commonmark.node.Node;
import org.commonmark.renderer.NodeRenderer;
import org.commonmark.renderer.html.HtmlNodeRendererContext;

/** A builder of a {@link Writeup} from its folder. It collects the errors of all chapters. */
final class WriteupBuilder {
    private final Path folder;
    private final List<String> problems = new ArrayList<>();
    private final CrossReferences targets = new CrossReferences();
    private final Mentions mentions = new Mentions();
    private final MarkdownHtml markdown;

    private record Chapter(Path file, Node document) {}

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
        Path first = folder.resolve("writeup.md");
        if (!Files.isRegularFile(first)) {
            throw new WriteupException(List.of(first + ": no such file"));
        }
        FrontMatter front = FrontMatter.read(first);
        var chapters = new ArrayList<Chapter>();
        chapters.add(read(ChapterFile.of(first), front));
        for (ChapterFile file : others(first)) {
            chapters.add(read(file, front.ofChapter(file.path())));
        }
        problems.addAll(mentions.problems());
        String title = render(chapters.get(0));
        var rest = new StringBuilder();
        chapters.subList(1, chapters.size()).forEach(chapter -> rest.append(render(chapter)));
        rest.append(MeasurementOrigins.html(front.numbers()));
        problems.addAll(mentions.deadLinks(title + rest));
        if (!problems.isEmpty()) {
            throw new WriteupException(problems);
        }
        String body = title + Page.contents(rest.toString()) + rest;
        return new Writeup(front.title(), Page.forScreen(front.title(), body), body);
    }

    /** Returns the files after the first in their order. */
    private List<ChapterFile> others(Path first) throws IOException {
        try (var entries = Files.list(folder)) {
            return entries.filter(path -> path.toString().endsWith(".md") && !path.equals(first))
                    .map(ChapterFile::of)
                    .sorted()
                    .toList();
        }
    }

    private Chapter read(ChapterFile file, FrontMatter front) {
        targets.beginAppendix(file.isAppendix() ? file.number() : 0);
        BiFunction<Integer, String, String> number =
                (line, reference) -> number(file.path(), line, reference, front.numbers());
        Node document = markdown.parse(References.replace(front.text(), number));
        document.accept(new ChapterVisitor(file, front.numbers(), number, markdown, targets, mentions, problems));
        return new Chapter(file.path(), document);
    }

    /** Returns the HTML of a chapter; empty if it has an error. */
    private String render(Chapter chapter) {
        try {
            return markdown.render(chapter.document());
        } catch (MarkdownException e) {
            problems.add(chapter.file() + ":" + e.line() + ": " + e.getMessage());
            return "";
        }
    }

    private String number(Path file, int line, String reference, MeasurementQuery numbers) {
        try {
            if (reference == null) {
                throw new IllegalArgumentException("\"}}\" is missing on this line");
            }
            return numbers.text(reference);
        } catch (IllegalArgumentException e) {
            problems.add(
                    file + ":" + line + ": {{" + (reference == null ? "" : reference + "}}") + ": " + e.getMessage());
            return "";
        }
    }
}
