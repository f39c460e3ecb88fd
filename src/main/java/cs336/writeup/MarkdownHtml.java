package cs336.writeup;

import java.io.IOException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Pattern;
import org.commonmark.ext.gfm.tables.TablesExtension;
import org.commonmark.node.AbstractVisitor;
import org.commonmark.node.Code;
import org.commonmark.node.Heading;
import org.commonmark.node.Image;
import org.commonmark.node.Node;
import org.commonmark.node.SoftLineBreak;
import org.commonmark.node.Text;
import org.commonmark.parser.IncludeSourceSpans;
import org.commonmark.parser.Parser;
import org.commonmark.renderer.html.AttributeProvider;
import org.commonmark.renderer.html.HtmlNodeRendererFactory;
import org.commonmark.renderer.html.HtmlRenderer;

/**
 * Markdown to an HTML fragment that needs nothing beside itself: CommonMark with GitHub's tables, formulas between
 * dollars ({@link Maths}) as SVG, and pictures from files inlined. The output is well-formed XML, apart from HTML
 * written by hand in the text, which is passed on as it is.
 */
public final class MarkdownHtml {
    private static final Map<String, String> PICTURES = Map.of(
            "svg", "image/svg+xml", "png", "image/png", "jpg", "image/jpeg", "jpeg", "image/jpeg", "gif", "image/gif");

    /**
     * A formula, or a short link, code or stressed word, with the brackets and stops that touch it. Between elements
     * the PDF would break a line even there.
     */
    private static final Pattern MARKED;

    /** A number with its sign or rate, outside of tags: the PDF would part {@code 0.66} from {@code ×}. */
    private static final Pattern AMOUNT =
            Pattern.compile("\\(?(?<![\\d.,])\\d[\\d.,]*(?:×| %|\u00a0\\w+/s)[).,;:]*+(?=[^<>]*<)");

    static {
        String element =
                "(?><(?:a|code|em|strong)\\b[^>]*+>[^<]{1,30}</\\w+>|<svg [^>]*class=\"formula\"(?s:.*?)</svg>)";
        String stops = "[).,;:]++";
        String notYet = "(?<!class=\"whole\">\\(?)"; // a caption is a fragment in a fragment
        MARKED = Pattern.compile(notYet + "(?:\\(" + element + "(?:" + stops + ")?|" + element + stops + ")");
    }

    private final Path folder;
    private final Parser parser;
    private final HtmlRenderer renderer;

    /** Pictures are found relative to {@code folder}. */
    public MarkdownHtml(Path folder) {
        this(folder, List.of());
    }

    MarkdownHtml(Path folder, List<HtmlNodeRendererFactory> renderers) {
        this.folder = folder;
        var tables = List.of(TablesExtension.create(), new Maths());
        parser = Parser.builder()
                .extensions(tables)
                .includeSourceSpans(IncludeSourceSpans.BLOCKS_AND_INLINES)
                .build();
        HtmlRenderer.Builder builder = HtmlRenderer.builder()
                .extensions(List.of(TablesExtension.create()))
                .nodeRendererFactory(Maths.FormulaRenderer::new)
                .attributeProviderFactory(context -> new Attributes());
        renderers.forEach(builder::nodeRendererFactory);
        renderer = builder.build();
    }

    /**
     * The text as HTML.
     *
     * @throws MarkdownException where a picture is missing or a formula is not TeX
     */
    public String fragment(String markdown) {
        return render(parse(markdown));
    }

    Node parse(String markdown) {
        return parser.parse(markdown);
    }

    String render(Node document) {
        String whole = "<span class=\"whole\">$0</span>";
        String marked = MARKED.matcher(renderer.render(document)).replaceAll(whole);
        return AMOUNT.matcher(marked).replaceAll(whole);
    }

    /** A picture's file as a {@code data:} address; addresses of that kind are returned as they are. */
    String inlined(String address, int line) {
        if (address.startsWith("data:")) {
            return address;
        }
        if (address.matches("[a-zA-Z][a-zA-Z0-9+.-]*:.*") || address.startsWith("//")) {
            throw new MarkdownException(line, "picture " + address + " is not a file of the project");
        }
        Path file = folder.resolve(URLDecoder.decode(address, StandardCharsets.UTF_8))
                .normalize();
        String ending = address.substring(address.lastIndexOf('.') + 1).toLowerCase(Locale.ROOT);
        String type = PICTURES.get(ending);
        if (type == null) {
            throw new MarkdownException(
                    line,
                    "picture " + address + " is of none of the kinds "
                            + String.join(
                                    ", ", PICTURES.keySet().stream().sorted().toList()));
        }
        try {
            return "data:" + type + ";base64," + Base64.getEncoder().encodeToString(Files.readAllBytes(file));
        } catch (IOException e) {
            throw new MarkdownException(line, "missing picture " + address + " (looked for " + file + ")");
        }
    }

    /** The words of a node without their dress. */
    static String plainText(Node node) {
        var text = new StringBuilder();
        node.accept(new AbstractVisitor() {
            @Override
            public void visit(Text part) {
                text.append(part.getLiteral());
            }

            @Override
            public void visit(Code part) {
                text.append(part.getLiteral());
            }

            @Override
            public void visit(SoftLineBreak part) {
                text.append(' ');
            }
        });
        return text.toString();
    }

    /** Inlines pictures and names headings, so that links can lead to them. */
    private final class Attributes implements AttributeProvider {
        private final Map<String, Integer> names = new HashMap<>();

        @Override
        public void setAttributes(Node node, String tag, Map<String, String> attributes) {
            if (node instanceof Image image) {
                attributes.put("src", inlined(image.getDestination(), Maths.line(image)));
            } else if (node instanceof Heading) {
                String name = plainText(node)
                        .toLowerCase(Locale.ROOT)
                        .replaceAll("[^\\p{L}\\p{N} _-]", "")
                        .strip()
                        .replace(' ', '-');
                int before = names.merge(name, 1, Integer::sum) - 1;
                attributes.put("id", before == 0 ? name : name + "-" + before);
            }
        }
    }
}
