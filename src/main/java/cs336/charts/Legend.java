package cs336.charts;

import java.awt.Color;
import java.awt.Font;
import java.awt.Graphics2D;
import java.awt.geom.Rectangle2D;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;

/**
 * A legend above a plot: series names with colour swatches, wrapped into rows.
 *
 * @param title text in front of the names; may be empty
 * @param names series names; empty for no legend
 * @param colors the colour of each name
 * @param width width of a row in drawing units
 */
public record Legend(String title, List<String> names, List<Color> colors, double width) {
    /** No legend, of height 0. */
    public static final Legend NONE = new Legend("", List.of(), 0);

    private static final double ROW = 20 * ChartStyle.UNITS;
    private static final double SWATCH = 10 * ChartStyle.UNITS;
    private static final double AFTER_SWATCH = 5 * ChartStyle.UNITS;
    private static final double BETWEEN = 16 * ChartStyle.UNITS;

    /** Creates a legend of series names in the order of the palette. */
    public Legend(String title, List<String> names, double width) {
        this(
                title,
                names,
                IntStream.range(0, names.size()).mapToObj(ChartStyle::color).toList(),
                width);
    }

    /** Returns the height of all rows in drawing units. */
    int height() {
        return names.isEmpty() ? 0 : (int) (rows().size() * ROW + 4 * ChartStyle.UNITS);
    }

    /** Returns the indices of the names in each row. */
    private List<List<Integer>> rows() {
        var rows = new ArrayList<List<Integer>>();
        double x = Double.POSITIVE_INFINITY;
        for (int i = 0; i < names.size(); i++) {
            if (x + entryWidth(i) > width) {
                rows.add(new ArrayList<>());
                x = indent();
            }
            rows.get(rows.size() - 1).add(i);
            x += entryWidth(i) + BETWEEN;
        }
        return rows;
    }

    private double entryWidth(int name) {
        return SWATCH + AFTER_SWATCH + ChartStyle.width(names.get(name), ChartStyle.smallFont());
    }

    /** Returns the width of the title, by which all rows are indented. */
    private double indent() {
        return title.isEmpty() ? 0 : ChartStyle.width(title, ChartStyle.smallFont()) + 12 * ChartStyle.UNITS;
    }

    /** Draws the rows such that the last baseline is at the given height. */
    void paint(Graphics2D g, double left, double lastBaseline) {
        Font font = ChartStyle.smallFont();
        List<List<Integer>> rows = rows();
        for (int row = 0; row < rows.size(); row++) {
            double baseline = lastBaseline - (rows.size() - 1 - row) * ROW;
            if (row == 0) {
                ChartStyle.drawText(g, title, font, ChartStyle.INK, left, baseline, 0);
            }
            double x = left + indent();
            for (int i : rows.get(row)) {
                g.setColor(colors.get(i));
                g.fill(new Rectangle2D.Double(x, baseline - SWATCH + ChartStyle.UNITS, SWATCH, SWATCH));
                ChartStyle.drawText(g, names.get(i), font, ChartStyle.INK, x + SWATCH + AFTER_SWATCH, baseline, 0);
                x += entryWidth(i) + BETWEEN;
            }
        }
    }
}
