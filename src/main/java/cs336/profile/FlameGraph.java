package cs336.profile;

import static cs336.units.UnitFactors.NANOS_PER_MS;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import cs336.bench.WholeFile;
import cs336.charts.ChartStyle;
import cs336.charts.Figure;
import cs336.charts.Svg;
import cs336.charts.TextResource;
import java.awt.Font;
import java.awt.font.FontRenderContext;
import java.awt.font.TextLayout;
import java.io.IOException;
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
 * A flame graph: a picture of time by call stack. The width of a frame is its fraction of the total time. A frame is
 * drawn below its caller, so depth grows downwards. Siblings keep the order of their first calls instead of
 * alphabetical order, so the layers of a model appear in the order in which they run.
 *
 * <pre>{@code
 * FlameGraph.of(profile.stacks()).title("A training step").save(Path.of("flamegraph.svg"));
 * }</pre>
 *
 * <p>The SVG file is a static picture in every viewer. In a browser it is interactive: a click on a frame zooms in,
 * Ctrl-F or {@code /} searches and shows the fraction of the matching frames, Escape resets. Colours distinguish
 * operators (names with {@code ::}), ranges and functions, and leaves (kernels, in a graph of GPU time).
 *
 * <p>Source: Gregg, "The Flame Graph", 2016.
 */
public final class FlameGraph {
    private static final String SCRIPT = TextResource.read(FlameGraph.class, "flamegraph.js");
    private static final String UNIT = "ms";
    private static final Gson JSON = new GsonBuilder().disableHtmlEscaping().create();
    private static final FontRenderContext EXACT = new FontRenderContext(null, true, true);

    private final FlameNode root;
    private String title = "";
    private String origin = "";

    /** All calls of one name with the same call stack. */
    private static final class FlameNode {
        final String name;
        final Map<String, FlameNode> callees = new LinkedHashMap<>();
        long value;

        FlameNode(String name) {
            this.name = name;
        }
    }

    /**
     * A frame of the picture.
     *
     * @param name name of the function
     * @param depth number of callers; 0 for the root
     * @param start sum of the values to the left of the frame
     * @param value sum of the values of the frame
     * @param leaf whether the frame has no callees
     */
    record FlameFrame(String name, int depth, long start, long value, boolean leaf) {
        /** Returns the name, shortened if it is that of a C++ template. */
        String label() {
            return name.indexOf('<') >= 0 ? KernelName.brief(name) : name;
        }
    }

    private FlameGraph(FlameNode root) {
        this.root = root;
    }

    /**
     * Returns the flame graph of these stacks, whose values are nanoseconds.
     *
     * @throws IllegalArgumentException if the sum of the values is 0
     */
    public static FlameGraph of(FoldedStacks stacks) {
        if (stacks.total() == 0) {
            throw new IllegalArgumentException("stacks must have a total above 0, not 0");
        }
        var root = new FlameNode("all");
        for (FoldedStacks.Stack stack : stacks.stacks()) {
            FlameNode at = root;
            at.value += stack.value();
            for (String frame : stack.frames()) {
                at = at.callees.computeIfAbsent(frame, FlameNode::new);
                at.value += stack.value();
            }
        }
        return new FlameGraph(root);
    }

    /** Sets the title above the graph. */
    public FlameGraph title(String text) {
        title = text;
        return this;
    }

    /** Sets the machine and commit of the measurement, which the figure and the interactive SVG document show. */
    public FlameGraph origin(String machineAndCommit) {
        origin = machineAndCommit;
        return this;
    }

    /**
     * Returns the fraction of the total time, 0 to 1, in frames whose name contains a text, ignoring case. Matching
     * frames inside other matching frames do not count again.
     */
    public double fraction(String text) {
        return (double) matching(root, text.toLowerCase(Locale.ROOT)) / root.value;
    }

    private static long matching(FlameNode node, String text) {
        if (node.name.toLowerCase(Locale.ROOT).contains(text)) {
            return node.value;
        }
        return node.callees.values().stream()
                .mapToLong(callee -> matching(callee, text))
                .sum();
    }

    /** Returns the frames in depth-first order: callers before callees, siblings from left to right. */
    List<FlameFrame> frames() {
        var frames = new ArrayList<FlameFrame>();
        add(root, 0, 0, frames);
        return frames;
    }

    private static void add(FlameNode node, int depth, long start, List<FlameFrame> frames) {
        frames.add(new FlameFrame(node.name, depth, start, node.value, node.callees.isEmpty()));
        long at = start;
        for (FlameNode callee : node.callees.values()) {
            add(callee, depth + 1, at, frames);
            at += callee.value;
        }
    }

    /** Returns the title above the graph; empty if it has no title. */
    public String title() {
        return title;
    }

    /** Returns a value as text, as in {@code 12.34 ms}. */
    String amount(long value) {
        return ChartStyle.number(Double.parseDouble(String.format(Locale.ROOT, "%.4g", value / NANOS_PER_MS))) + " "
                + UNIT;
    }

    /** Returns the static picture, for notebooks and the writeup. */
    public Figure figure(String name, String description) {
        return figure(name, description, frames());
    }

    private Figure figure(String name, String description, List<FlameFrame> frames) {
        var panel = new FlamePanel(this, frames, name);
        return new Figure(name, description, FlamePanel.WIDTH, panel.pixels(), List.of(panel)).withOrigin(origin);
    }

    /** Returns the interactive SVG document. It shows the static picture in viewers that run no scripts. */
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
     * Writes the interactive SVG document.
     *
     * @throws IOException if the file cannot be written
     */
    public void save(Path file) throws IOException {
        WholeFile.write(file, svg());
    }

    /** Returns the data of the script as JSON: all names, then name index, depth and value of each frame. */
    private String data(List<FlameFrame> frames) {
        Map<String, Integer> names = new LinkedHashMap<>();
        Map<String, String> labels = new LinkedHashMap<>();
        long[][] numbers = new long[frames.size()][];
        for (int i = 0; i < numbers.length; i++) {
            FlameFrame frame = frames.get(i);
            int name = names.computeIfAbsent(frame.name, n -> names.size());
            if (!frame.label().equals(frame.name)) {
                labels.put(String.valueOf(name), frame.label());
            }
            numbers[i] = new long[] {name, frame.depth, frame.value};
        }
        Map<String, Object> data = new LinkedHashMap<>();
        data.put("origin", origin);
        data.put("unit", UNIT);
        data.put("perUnit", NANOS_PER_MS);
        data.put("look", FlamePanel.style());
        data.put("names", names.keySet());
        data.put("labels", labels);
        data.put("advances", advances(frames));
        data.put("frames", numbers);
        return JSON.toJson(data);
    }

    /**
     * Returns the characters that the script writes: those of the names and of the origin, and ASCII for its own texts.
     */
    private TreeSet<Integer> characters(List<FlameFrame> frames) {
        var characters = new TreeSet<Integer>();
        for (int c = '!'; c <= '~'; c++) {
            characters.add(c);
        }
        characters.add((int) '…');
        origin.codePoints().forEach(characters::add);
        frames.forEach(frame -> frame.name.codePoints().forEach(characters::add));
        characters.remove((int) ' ');
        characters.removeIf(c -> !FlamePanel.font().canDisplay(c));
        return characters;
    }

    /** Returns the advance width of each character in drawing units. */
    private Map<String, Double> advances(List<FlameFrame> frames) {
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

    /** Returns the glyph outlines with which the script draws text, in the font of the static picture. */
    private String glyphs(List<FlameFrame> frames) {
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
}
