package cs336.writeup;

import java.io.IOException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.commonmark.Extension;
import org.commonmark.ext.gfm.tables.TableBlock;
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
 * A converter from Markdown to a self-contained HTML fragment: CommonMark with GitHub's tables, formulas between dollar
 * signs ({@link Maths}) as SVG, and inlined images. The output is well-formed XML, except for HTML in the Markdown
 * text, which is passed through.
 */
public final class MarkdownHtml {
    private static final Map<String, String> IMAGE_TYPES = Map.of(
            "svg", "image/svg+xml", "png", "image/png", "jpg", "image/jpeg", "jpeg", "image/jpeg", "gif", "image/gif");

    /**
     * A formula, short link, short code or short emphasis with adjacent parentheses and punctuation. The PDF renderer
     * would allow line breaks between these.
     */
    private static final Pattern MARKED;

    /**
     * A number with {@code ×}, {@code %}, {@code B} or a rate, outside of tags; the PDF renderer would allow a break in
     * {@code 0.66×} and {@code 2.7B}.
     */
    private static final Pattern AMOUNT =
            Pattern.compile("\\(?(?<![\\d.,])\\d[\\d.,]*(?:×| %|B\\b|\u00a0\\w+/s)[).,;:]*+(?=[^<>]*<)");

    /**
     * An option, the name of a command, or a short name with dots in code; the PDF renderer would allow breaks after
     * hyphens and dots and in {@code ./}.
     */
    private static final Pattern CODE_NAME = Pattern.compile(
            "(?<=[ >])(?:--?\\w[\\w-]*+|\\./\\w++)(?=[^<>]*</code>)" + "|(?<=<code>)\\w[\\w.]{1,29}(?=</code>)");

    /** The address of an inlined image. */
    private static final Pattern DATA = Pattern.compile("\"data:[^\"]*+\"");

    static {
        String element =
                "(?><(?:a|code|em|strong)\\b[^>]*+>[^<]{1,30}</\\w+>|<svg [^>]*class=\"formula\"(?s:.*?)</svg>)";
        String punctuation = "[).,;:]++";
        String notWrapped = "(?<!class=\"whole\">[\\[(]?)"; // captions are already processed as fragments
        MARKED = Pattern.compile(
                notWrapped + "(?:\\(" + element + "(?:" + punctuation + ")?|" + element + punctuation + ")");
    }

    /** The largest number of rows of a table that is not divided between pages. */
    static final int LONGEST_WHOLE_TABLE = 15;

    private final Path folder;
    private final Parser parser;
    private final HtmlRenderer renderer;
    private final Map<Node, String> ids = new IdentityHashMap<>();
    private final Map<String, Integer> names = new HashMap<>();

    /** Creates a converter that resolves image files relative to a folder. */
    public MarkdownHtml(Path folder) {
        this(folder, List.of());
    }

    /** Creates a converter with additional renderers. */
    MarkdownHtml(Path folder, List<HtmlNodeRendererFactory> renderers) {
        this.folder = folder;
        var extensions = new ArrayList<Extension>(List.of(TablesExtension.create(), new Maths()));
        if (!renderers.isEmpty()) { // one of them renders citations
            extensions.add(new Citations());
        }
        parser = Parser.builder()
                .extensions(extensions)
                .includeSourceSpans(IncludeSourceSpans.BLOCKS_AND_INLINES)
                .build();
        HtmlRenderer.Builder builder = HtmlRenderer.builder()
                .extensions(List.of(TablesExtension.create()))
                .nodeRendererFactory(Maths.FormulaRenderer::new)
                .attributeProviderFactory(context -> new ImageAndIdAttributes());
        renderers.forEach(builder::nodeRendererFactory);
        renderer = builder.build();
    }

    /**
     * Returns the text as HTML.
     *
     * @throws MarkdownException if an image is missing or a formula is not valid TeX
     */
    public String fragment(String markdown) {
        return render(parse(markdown));
    }

    /** Parses a text with line numbers. */
    Node parse(String markdown) {
        return parser.parse(markdown);
    }

    /** Renders a parsed text and forbids line breaks inside amounts and options and next to punctuation. */
    String render(Node document) {
        String whole = "<span class=\"whole\">$0</span>";
        // The patterns match nothing in the data of images, but would search megabytes of it.
        List<String> images = new ArrayList<>();
        String text = DATA.matcher(renderer.render(document)).replaceAll(image -> {
            images.add(image.group());
            return "\"data:\"";
        });
        String marked = MARKED.matcher(text).replaceAll(whole);
        String commands = CODE_NAME.matcher(marked).replaceAll(whole);
        String amounts = AMOUNT.matcher(commands).replaceAll(whole);
        Iterator<String> inOrder = images.iterator();
        return DATA.matcher(amounts).replaceAll(image -> Matcher.quoteReplacement(inOrder.next()));
    }

    /**
     * Returns the id of the first heading with a text, as on GitHub: in lower case, without punctuation, with hyphens
     * in place of spaces. JupyterLab's anchor of the heading, which is the text with hyphens in place of spaces, gives
     * the same id.
     */
    public static String headingId(String text) {
        return text.toLowerCase(Locale.ROOT)
                .replaceAll("[^\\p{L}\\p{N} _-]", "")
                .strip()
                .replace(' ', '-');
    }

    /** Returns the id of a heading, which is unique among those of this converter. */
    String id(Heading heading) {
        return ids.computeIfAbsent(heading, node -> {
            String name = headingId(plainText(node));
            int earlier = names.merge(name, 1, Integer::sum) - 1;
            return earlier == 0 ? name : name + "-" + earlier;
        });
    }

    /** Sets the id of an element that is not a heading. */
    void setId(Node node, String id) {
        ids.put(node, id);
    }

    /** Returns an image file as a {@code data:} URL; {@code data:} URLs are returned unchanged. */
    String inlined(String address, int line) {
        if (address.startsWith("data:")) {
            return address;
        }
        if (address.matches("[a-zA-Z][a-zA-Z0-9+.-]*:.*") || address.startsWith("//")) {
            throw new MarkdownException(line, "image " + address + " is not a file of the project");
        }
        Path file;
        try {
            file = folder.resolve(URLDecoder.decode(address, StandardCharsets.UTF_8))
                    .normalize();
        } catch (IllegalArgumentException e) { // an invalid escape or path
            throw new MarkdownException(line, "image " + address + " is not a file name: " + e.getMessage());
        }
        String extension = address.substring(address.lastIndexOf('.') + 1).toLowerCase(Locale.ROOT);
        String type = IMAGE_TYPES.get(extension);
        if (type == null) {
            throw new MarkdownException(
                    line,
                    "image " + address + " must have one of the extensions "
                            + String.join(
                                    ", ", IMAGE_TYPES.keySet().stream().sorted().toList()));
        }
        try {
            return "data:" + type + ";base64," + Base64.getEncoder().encodeToString(Files.readAllBytes(file));
        } catch (IOException e) {
            throw new MarkdownException(line, "missing image " + address + " (looked for " + file + ")");
        }
    }

    /** Returns the text of a node without formatting. */
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

    /** Returns the number of rows of the tables in a parsed text, without headers. */
    static int rows(Node document) {
        int rows = 0;
        for (Node child = document.getFirstChild(); child != null; child = child.getNext()) {
            rows += child instanceof TableBlock table ? rows(table) : 0;
        }
        return rows;
    }

    private static int rows(TableBlock table) {
        int rows = 0;
        for (Node row = table.getLastChild().getFirstChild(); row != null; row = row.getNext()) {
            rows++;
        }
        return rows;
    }

    /** The attributes of inlined images, and the ids that links refer to. */
    private final class ImageAndIdAttributes implements AttributeProvider {
        @Override
        public void setAttributes(Node node, String tag, Map<String, String> attributes) {
            if (node instanceof Image image) {
                attributes.put("src", inlined(image.getDestination(), Maths.line(image)));
            } else if (node instanceof Heading heading) {
                attributes.put("id", id(heading));
            } else if (ids.containsKey(node)) {
                attributes.put("id", ids.get(node));
            } else if (node instanceof TableBlock table && rows(table) > LONGEST_WHOLE_TABLE) {
                attributes.put("class", "long");
            }
        }
    }
}
