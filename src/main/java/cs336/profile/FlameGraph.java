package cs336.profile;

import static cs336.units.UnitFactors.NANOS_PER_MS;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import cs336.charts.ChartStyle;
import cs336.charts.Figure;
import cs336.charts.Svg;
import java.awt.Font;
import java.awt.font.FontRenderContext;
import java.awt.font.TextLayout;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.jfree.svg.SVGGraphics2D;
import org.jfree.svg.SVGHints;

/**
 * A flame graph: where the time went, by the way there. A frame is as wide as its share of the whole and stands under
 * the one that called it; callers are on top, so that depth grows the way one reads. Neighbours are in the order in
 * which they occurred first, not in that of the alphabet: layers of a model stand side by side as they run.
 *
 * <pre>{@code
 * FlameGraph.of(profile.stacks()).title("A training step").save(Path.of("flamegraph.svg"));
 * FlameGraph.of(FoldedStacks.read(file)).counting("samples", 1).save(picture);
 * }</pre>
 *
 * <p>The file is a still picture for whatever shows SVG, and in a browser one to explore: a click on a frame zooms to
 * it, what is sought lights up with its share of the whole (Ctrl-F or {@code /}), Escape resets. Colours tell names
 * with {@code ::} (operators) from others (places in the program) and both from what called nothing (kernels, where the
 * time is a card's).
 *
 * <p>After Gregg, "The Flame Graph", 2016.
 */
public final class FlameGraph {
    private static final String SCRIPT = script();
    private static final String UNIT = "ms";
    private static final Gson JSON = new GsonBuilder().disableHtmlEscaping().create();
    private static final FontRenderContext EXACT = new FontRenderContext(null, true, true);

    private final Node root;
    private String title = "";

    /** All calls of one name from one place. */
    private static final class Node {
        final String name;
        final Map<String, Node> callees = new LinkedHashMap<>();
        long value;

        Node(String name) {
            this.name = name;
        }
    }

    /**
     * A frame of the picture.
     *
     * @param name of what was called
     * @param depth calls above it; the whole has 0
     * @param start the sum of what stands to the left of it
     * @param value its own sum
     * @param leaf whether it called nothing
     */
    record FlameFrame(String name, int depth, long start, long value, boolean leaf) {
        /** The name if it is of a readable length, otherwise what of it says most. */
        String label() {
            return name.indexOf('<') >= 0 ? KernelName.brief(name) : name;
        }
    }

    private FlameGraph(Node root) {
        this.root = root;
    }

    /**
     * The flame graph of these stacks, whose values count nanoseconds; see {@link #counting}.
     *
     * @throws IllegalArgumentException if their sum is 0
     */
    public static FlameGraph of(FoldedStacks stacks) {
        if (stacks.total() == 0) throw new IllegalArgumentException("stacks must not be empty: their sum is 0");
        Node root = new Node("all");
        for (FoldedStacks.Stack stack : stacks.stacks()) {
            Node at = root;
            at.value += stack.value();
            for (String frame : stack.frames()) {
                at = at.callees.computeIfAbsent(frame, Node::new);
                at.value += stack.value();
            }
        }
        return new FlameGraph(root);
    }

    /** What stands above it. */
    public FlameGraph title(String text) {
        title = text;
        return this;
    }

    /**
     * The share of the whole, 0 to 1, of frames whose name contains a text, whatever the case of its letters. A frame
     * inside another that counts does not count again.
     */
    public double share(String text) {
        return (double) sought(root, text.toLowerCase(Locale.ROOT)) / root.value;
    }

    private static long sought(Node node, String text) {
        if (node.name.toLowerCase(Locale.ROOT).contains(text)) return node.value;
        return node.callees.values().stream()
                .mapToLong(callee -> sought(callee, text))
                .sum();
    }

    /** From the top down, and in each call from left to right: callers before callees. */
    List<FlameFrame> frames() {
        var frames = new ArrayList<FlameFrame>();
        add(root, 0, 0, frames);
        return frames;
    }

    private static void add(Node node, int depth, long start, List<FlameFrame> frames) {
        frames.add(new FlameFrame(node.name, depth, start, node.value, node.callees.isEmpty()));
        long at = start;
        for (Node callee : node.callees.values()) {
            add(callee, depth + 1, at, frames);
            at += callee.value;
        }
    }

    String title() {
        return title;
    }

    /** A value as it is shown: {@code 12.34 ms}. */
    String amount(long value) {
        return ChartStyle.number(Double.parseDouble(String.format(Locale.ROOT, "%.4g", value / NANOS_PER_MS))) + " " + UNIT;
    }

    /** The still picture, for notebooks and the writeup. */
    public Figure figure(String name, String description) {
        return figure(name, description, frames());
    }

    private Figure figure(String name, String description, List<FlameFrame> frames) {
        FlamePanel panel = new FlamePanel(this, frames, name);
        return new Figure(name, description, FlamePanel.WIDTH, panel.pixels(), List.of(panel));
    }

    /** The document for exploring, which shows the still picture where no script runs. */
    public String svg() {
        List<FlameFrame> frames = frames();
        String description = "Flame graph" + (title.isEmpty() ? "" : ": " + title);
        String still = figure("flamegraph", description, frames).svg();
        return still.substring(0, still.lastIndexOf("</svg>"))
                + glyphs(frames)
                + "<script><![CDATA[\n"
                + SCRIPT.replace("\"@DATA@\"", data(frames).replace("]]>", "]]\\u003e"))
                + "]]></script>\n</svg>\n";
    }

    /**
     * Writes the document for exploring.
     *
     * @throws IOException if the file cannot be written
     */
    public void save(Path file) throws IOException {
        Files.writeString(file, svg());
    }

    /** What the script draws from: names once, then of each frame name, depth and value, callers before callees. */
    private String data(List<FlameFrame> frames) {
        Map<String, Integer> names = new LinkedHashMap<>();
        Map<String, String> labels = new LinkedHashMap<>();
        long[][] numbers = new long[frames.size()][];
        for (int i = 0; i < numbers.length; i++) {
            FlameFrame frame = frames.get(i);
            int name = names.computeIfAbsent(frame.name, n -> names.size());
            if (!frame.label().equals(frame.name)) labels.put(String.valueOf(name), frame.label());
            numbers[i] = new long[] {name, frame.depth, frame.value};
        }
        Map<String, Object> data = new LinkedHashMap<>();
        data.put("unit", UNIT);
        data.put("perUnit", NANOS_PER_MS);
        data.put("look", FlamePanel.look());
        data.put("names", names.keySet());
        data.put("labels", labels);
        data.put("advances", advances(frames));
        data.put("frames", numbers);
        return JSON.toJson(data);
    }

    /**
     * The characters that a label may have: those of the names and those of ASCII, which the script's own words have.
     */
    private static TreeSet<Integer> characters(List<FlameFrame> frames) {
        var characters = new TreeSet<Integer>();
        for (int c = '!'; c <= '~'; c++) characters.add(c);
        characters.add((int) '…');
        frames.forEach(frame -> frame.name.codePoints().forEach(characters::add));
        characters.remove((int) ' ');
        characters.removeIf(c -> !FlamePanel.font().canDisplay(c));
        return characters;
    }

    /** The width of each character, in drawing units. */
    private static Map<String, Double> advances(List<FlameFrame> frames) {
        var advances = new TreeMap<String, Double>();
        for (int c : characters(frames)) {
            advances.put(Character.toString(c), Double.valueOf(Figure.twoDecimals(advance(c))));
        }
        advances.put(" ", Double.valueOf(Figure.twoDecimals(advance(' '))));
        return advances;
    }

    private static double advance(int character) {
        return new TextLayout(Character.toString(character), FlamePanel.font(), EXACT).getAdvance();
    }

    /** The outlines from which the script sets its words, in the type of the still picture. */
    private static String glyphs(List<FlameFrame> frames) {
        Font font = FlamePanel.font();
        var g = new SVGGraphics2D(1, 1);
        g.setGeomDoubleConverter(Figure::twoDecimals);
        g.setColor(ChartStyle.INK);
        for (int c : characters(frames)) {
            g.setRenderingHint(SVGHints.KEY_ELEMENT_ID, "glyph-" + c);
            g.fill(new TextLayout(Character.toString(c), font, EXACT).getOutline(null));
        }
        return "<defs>" + Svg.body(g) + "</defs>\n";
    }

    private static String script() {
        try (InputStream in = FlameGraph.class.getResourceAsStream("flamegraph.js")) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
