package cs336.profile;

import cs336.charts.ChartStyle;
import cs336.charts.HoverTexts;
import java.awt.Color;
import java.awt.Font;
import java.awt.Graphics2D;
import java.awt.geom.Rectangle2D;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jfree.svg.SVGHints;
import org.knowm.xchart.XYChart;

/** The frames of a {@link FlameGraph} as a chart without axes. */
final class FlamePanel extends XYChart {
    /** Width in pixels. */
    static final int WIDTH = 1200;

    private static final int MARGIN = 12 * ChartStyle.UNITS;
    private static final int TOP = 34 * ChartStyle.UNITS;
    private static final int ROW = 18 * ChartStyle.UNITS;
    private static final int BOTTOM = 26 * ChartStyle.UNITS; // room for the name of the frame under the pointer
    private static final double GAP = 0.5 * ChartStyle.UNITS;
    private static final double PADDING = 3 * ChartStyle.UNITS;
    private static final double BASELINE = 13 * ChartStyle.UNITS;
    private static final double MIN_WIDTH = 0.5 * ChartStyle.UNITS;
    private static final int MIN_LETTERS = 3;
    private static final int SHADES = 3;

    /** Palette indices of ranges and functions (blue), operators (green) and leaves (orange). */
    private static final List<Integer> HUES = List.of(5, 2, 4);

    /** Strengths of the hue in its shades, weak enough for black text. */
    private static final double[] TINTS = {0.52, 0.42, 0.32};

    private final FlameGraph graph;
    private final List<FlameGraph.FlameFrame> frames;
    private final String name;

    FlamePanel(FlameGraph graph, List<FlameGraph.FlameFrame> frames, String name) {
        super(WIDTH * ChartStyle.UNITS, ChartStyle.HEIGHT);
        this.graph = graph;
        this.frames = frames;
        this.name = name;
    }

    static Font font() {
        return ChartStyle.smallFont();
    }

    /** Returns the height that all frames need, in pixels. */
    int pixels() {
        int depth = frames.stream().mapToInt(FlameGraph.FlameFrame::depth).max().orElse(0);
        return (TOP + (depth + 1) * ROW + BOTTOM) / ChartStyle.UNITS;
    }

    /** Returns the dimensions and colours with which the script draws the same picture. */
    static Map<String, Object> style() {
        Map<String, Object> style = new LinkedHashMap<>();
        style.put("width", WIDTH * ChartStyle.UNITS);
        style.put("margin", MARGIN);
        style.put("top", TOP);
        style.put("row", ROW);
        style.put("gap", GAP);
        style.put("padding", PADDING);
        style.put("baseline", BASELINE);
        style.put("narrowest", MIN_WIDTH);
        style.put("fewest", MIN_LETTERS);
        style.put(
                "colors",
                HUES.stream()
                        .map(hue -> List.of(0, 1, 2).stream()
                                .map(shade -> hex(tinted(hue, shade)))
                                .toList())
                        .toList());
        style.put("sought", hex(ChartStyle.color(3)));
        return style;
    }

    static Color tinted(int hue, int shade) {
        Color full = ChartStyle.color(hue);
        double tint = TINTS[shade];
        return new Color(
                lightened(full.getRed(), tint), lightened(full.getGreen(), tint), lightened(full.getBlue(), tint));
    }

    private static int lightened(int channel, double tint) {
        return (int) Math.round(255 - (255 - channel) * tint);
    }

    private static String hex(Color color) {
        return String.format("#%06x", color.getRGB() & 0xFFFFFF);
    }

    @Override
    public void paint(Graphics2D g, int width, int height) {
        g.setColor(Color.WHITE);
        g.fillRect(0, 0, width, height);
        double heading = 21.0 * ChartStyle.UNITS;
        ChartStyle.drawText(g, graph.title(), ChartStyle.titleFont(), ChartStyle.INK, MARGIN, heading, 0);
        double total = frames.get(0).value();
        double scale = (width - 2 * MARGIN) / total;
        Map<String, Integer> names = new HashMap<>();
        g.setRenderingHint(SVGHints.KEY_BEGIN_GROUP, name + "-frames");
        for (FlameGraph.FlameFrame frame : frames) {
            int shade = names.computeIfAbsent(frame.name(), n -> names.size()) % SHADES;
            double wide = frame.value() * scale - GAP;
            if (wide < MIN_WIDTH) {
                continue;
            }
            double x = MARGIN + frame.start() * scale;
            double y = TOP + frame.depth() * ROW;
            int hue = HUES.get(frame.leaf() ? 2 : frame.name().contains("::") ? 1 : 0);
            g.setColor(tinted(hue, shade));
            var box = new Rectangle2D.Double(x, y, wide, ROW - GAP);
            g.fill(box);
            HoverTexts.add(g, box, () -> frame.label() + "\n" + graph.amount(frame.value()));
            String label = frame.depth() == 0 ? frame.label() + ": " + graph.amount(frame.value()) : frame.label();
            ChartStyle.drawText(
                    g, fitted(label, wide - 2 * PADDING), font(), ChartStyle.INK, x + PADDING, y + BASELINE, 0);
        }
        g.setRenderingHint(SVGHints.KEY_END_GROUP, name + "-frames");
    }

    /** Returns the text, shortened with an ellipsis if needed, or nothing if too few letters would fit. */
    private static String fitted(String text, double room) {
        if (room <= 0) {
            return "";
        }
        if (ChartStyle.width(text, font()) <= room) {
            return text;
        }
        int low = 0;
        int high = text.length() - 1;
        while (low < high) {
            int middle = (low + high + 1) / 2;
            if (ChartStyle.width(text.substring(0, middle) + "…", font()) <= room) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        return low < MIN_LETTERS ? "" : text.substring(0, low).stripTrailing() + "…";
    }
}
