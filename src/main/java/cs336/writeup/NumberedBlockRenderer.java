package cs336.writeup;

import cs336.charts.Svg;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.stream.Collectors;
import org.commonmark.node.FencedCodeBlock;
import org.commonmark.node.Image;
import org.commonmark.node.Link;
import org.commonmark.node.ListBlock;
import org.commonmark.node.Node;
import org.commonmark.node.Paragraph;
import org.commonmark.renderer.NodeRenderer;
import org.commonmark.renderer.html.HtmlNodeRendererContext;

/** A renderer of the numbered figures and tables of a writeup, of citations, and of links. */
final class NumberedBlockRenderer implements NodeRenderer {
    private final HtmlNodeRendererContext context;
    private final Path folder;
    private final MarkdownHtml markdown;
    private final CrossReferences targets;

    /** Creates a renderer of a writeup in the given folder. */
    NumberedBlockRenderer(
            HtmlNodeRendererContext context, Path folder, CrossReferences targets, MarkdownHtml markdown) {
        this.context = context;
        this.folder = folder;
        this.targets = targets;
        this.markdown = markdown;
    }

    /** Returns the image if it is the only content of a paragraph, which makes it a figure; otherwise null. */
    static Image figureImage(Paragraph paragraph) {
        Node child = paragraph.getFirstChild();
        return child instanceof Image image && child.getNext() == null ? image : null;
    }

    @Override
    public Set<Class<? extends Node>> getNodeTypes() {
        return Set.of(Paragraph.class, FencedCodeBlock.class, Link.class, Citations.Citation.class);
    }

    @Override
    public void render(Node node) {
        if (node instanceof Paragraph paragraph) {
            Image image = figureImage(paragraph);
            if (image != null) {
                figure(image);
            } else {
                paragraph(paragraph);
            }
        } else if (node instanceof FencedCodeBlock block) {
            CrossReferences.NumberedTable table = targets.table(block);
            if (table != null) {
                table(table);
            } else {
                html("<pre><code>" + Svg.escape(block.getLiteral()) + "</code></pre>");
            }
        } else if (node instanceof Link link) {
            link(link);
        } else if (node instanceof Citations.Citation citation) {
            citation(citation);
        }
    }

    private void paragraph(Paragraph paragraph) {
        boolean tight = paragraph.getParent().getParent() instanceof ListBlock list && list.isTight();
        if (!tight) {
            html("<p>");
        }
        children(paragraph);
        if (!tight) {
            html("</p>");
            context.getWriter().line();
        }
    }

    private void figure(Image image) {
        String address = image.getDestination();
        CrossReferences.Target target = targets.target(address);
        int line = Maths.line(image);
        String source = markdown.inlined(address, line);
        String alternative = MarkdownHtml.plainText(image);
        if (alternative.isBlank()) {
            throw new MarkdownException(line, "figure " + address + " has no caption: ![caption](" + address + ")");
        }
        html("<figure id=\"" + target.id() + "\">");
        html("<img src=\"" + source + "\" alt=\"" + Svg.escape(alternative) + "\" />");
        html("<figcaption><b>Figure " + target.number() + ".</b> ");
        children(image);
        html("</figcaption>");
        html("</figure>");
    }

    private void table(CrossReferences.NumberedTable numbered) {
        CrossReferences.Target target = numbered.target();
        CrossReferences.TableContent table = numbered.table();
        String caption = markdown.render(table.caption()).strip().replaceAll("^<p>|</p>$", "");
        int rows = table.cells() != null ? table.cells().rows().size() : MarkdownHtml.rows(table.rows());
        boolean isLong = rows > MarkdownHtml.LONGEST_WHOLE_TABLE;
        html("<figure id=\"" + target.id() + "\" class=\"measured" + (isLong ? " long" : "") + "\">");
        html("<figcaption><b>Table " + target.number() + ".</b> " + caption + "</figcaption>");
        if (table.cells() != null) {
            html(table.cells().html());
        } else {
            children(table.rows());
        }
        html("</figure>");
    }

    private void citation(Citations.Citation citation) {
        html("<span class=\"whole\">["
                + citation.keys().stream()
                        .map(key -> "<a href=\"#" + workId(key) + "\">" + targets.work(key) + "</a>")
                        .collect(Collectors.joining(", "))
                + "]</span>");
    }

    /** Returns the id of a work in the list of references. */
    static String workId(String key) {
        return "reference-" + key;
    }

    private void link(Link link) {
        String address = link.getDestination();
        CrossReferences.Target target = targets.target(address);
        if (target != null) {
            html("<a href=\"#" + target.id() + "\">");
            children(link);
            html("\u00a0" + target.number() + "</a>");
        } else if (address.matches("https?:.*") || address.startsWith("#")) { // the builder checks "#"
            html("<a href=\"" + Svg.escape(address) + "\">");
            children(link);
            html("</a>");
        } else if (Files.exists(folder.resolve(address.replaceAll("#.*", "")))
                && !address.matches(".*\\.(svg|png|jpe?g)")) {
            // A file of the repository: the page keeps the text but no link, because the file is not part of the page.
            children(link);
        } else {
            throw new MarkdownException(Maths.line(link), "link to " + address + " leads to no figure, table or file");
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
