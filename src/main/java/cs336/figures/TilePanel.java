package cs336.figures;

import cs336.charts.ChartStyle;
import cs336.charts.Figure;
import cs336.figures.ScoreTiles.TileState;
import java.awt.Color;
import java.awt.Graphics2D;
import java.awt.geom.Path2D;
import java.awt.geom.Rectangle2D;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.knowm.xchart.XYChart;

/**
 * A drawing of {@link ScoreTiles}, coloured by their treatment, with the path of one thread block through them. It is
 * an empty XChart chart with its own painting, so that a {@link Figure} can contain it.
 */
final class TilePanel extends XYChart {
    /** The tiles that one thread block visits. */
    enum TilePath {
        /** A row of tiles from left to right: the block keeps its queries and loops over the keys. */
        ALONG_KEYS,
        /** A column of tiles from top to bottom: the block keeps its keys and loops over the queries. */
        ALONG_QUERIES
    }

    private static final Map<TileState, Color> COLORS = new LinkedHashMap<>();
    private static final Map<TileState, String> NAMES = new LinkedHashMap<>();
    private static final Color HIDDEN = new Color(0xFBE9D0);
    private static final double UNIT = ChartStyle.UNITS;
    private static final double LEFT = 26 * UNIT;
    private static final double RIGHT = 12 * UNIT;
    private static final double TOP = 50 * UNIT;
    private static final double BOTTOM = 34 * UNIT;

    static {
        COLORS.put(TileState.WHOLE, new Color(0x8FC1DE));
        COLORS.put(TileState.MASKED, new Color(0xE69F00));
        COLORS.put(TileState.SKIPPED, ChartStyle.GRID);
        NAMES.put(TileState.WHOLE, "computed");
        NAMES.put(TileState.MASKED, "computed, pale part masked");
        NAMES.put(TileState.SKIPPED, "skipped");
    }

    private final String title;
    private final ScoreTiles tiles;
    private final TilePath path;
    private final int line;
    private final boolean legend;

    /**
     * Creates a panel.
     *
     * @param path direction of the thread block
     * @param line the row or column of tiles that the thread block visits
     * @param legend whether to draw a legend below, which may extend over the next panels
     */
    TilePanel(String title, ScoreTiles tiles, TilePath path, int line, boolean legend) {
        super(ChartStyle.WIDTH, ChartStyle.HEIGHT);
        this.title = title;
        this.tiles = tiles;
        this.path = path;
        this.line = line;
        this.legend = legend;
    }

    @Override
    public void paint(Graphics2D g, int width, int height) {
        double score = Math.min(
                (width - LEFT - RIGHT) / tiles.keys(),
                (height - TOP - BOTTOM) / tiles.queries()); // side length of a score
        g.setColor(Color.WHITE);
        g.fill(new Rectangle2D.Double(0, 0, width, height));
        ChartStyle.drawText(g, title, ChartStyle.titleFont(), ChartStyle.INK, LEFT, 18 * UNIT, 0);
        ChartStyle.drawText(g, "keys", ChartStyle.smallFont(), ChartStyle.FAINT_INK, LEFT, TOP - 6 * UNIT, 0);
        double queries = TOP + ChartStyle.width("queries", ChartStyle.smallFont());
        ChartStyle.drawText(g, "queries", ChartStyle.smallFont(), ChartStyle.FAINT_INK, LEFT - 8 * UNIT, queries, -90);
        for (int row = 0; row < tiles.rows(); row++) {
            for (int column = 0; column < tiles.columns(); column++) {
                paintTile(g, row, column, score);
            }
        }
        paintPath(g, score);
        if (legend) {
            paintLegend(g, TOP + tiles.queries() * score + 24 * UNIT);
        }
    }

    private Rectangle2D.Double place(int row, int column, double score) {
        int rows = Math.min(tiles.queryTile(), tiles.queries() - row * tiles.queryTile());
        int columns = Math.min(tiles.keyTile(), tiles.keys() - column * tiles.keyTile());
        return new Rectangle2D.Double(
                LEFT + column * tiles.keyTile() * score,
                TOP + row * tiles.queryTile() * score,
                columns * score,
                rows * score);
    }

    private void paintTile(Graphics2D g, int row, int column, double score) {
        Rectangle2D.Double place = place(row, column, score);
        TileState state = tiles.state(row, column);
        g.setColor(COLORS.get(state));
        g.fill(place);
        if (state == TileState.MASKED) {
            g.setColor(HIDDEN);
            g.fill(hidden(row, column, place, score));
        }
        g.setColor(Color.WHITE);
        g.setStroke(ChartStyle.hairline(1.5));
        g.draw(place);
    }

    /** Returns the masked scores of a tile: a staircase in its upper right corner. */
    private Path2D hidden(int row, int column, Rectangle2D place, double score) {
        int rows = (int) Math.round(place.getHeight() / score);
        int columns = (int) Math.round(place.getWidth() / score);
        var stairs = new Path2D.Double();
        stairs.moveTo(place.getMaxX(), place.getY());
        for (int i = 0; i < rows; i++) {
            int attended = 0;
            while (attended < columns
                    && tiles.attends(row * tiles.queryTile() + i, column * tiles.keyTile() + attended)) {
                attended++;
            }
            stairs.lineTo(place.getX() + attended * score, place.getY() + i * score);
            stairs.lineTo(place.getX() + attended * score, place.getY() + (i + 1) * score);
        }
        stairs.lineTo(place.getMaxX(), place.getMaxY());
        stairs.closePath();
        return stairs;
    }

    /** Draws a frame around the tiles that the thread block visits and numbers them in order. */
    private void paintPath(Graphics2D g, double score) {
        Rectangle2D frame = null;
        int visits = 0;
        for (int step = 0; step < (path == TilePath.ALONG_KEYS ? tiles.columns() : tiles.rows()); step++) {
            int row = path == TilePath.ALONG_KEYS ? line : step;
            int column = path == TilePath.ALONG_KEYS ? step : line;
            if (tiles.state(row, column) == TileState.SKIPPED) {
                continue;
            }
            Rectangle2D.Double place = place(row, column, score);
            String number = String.valueOf(++visits);
            double x = place.x + 6 * UNIT;
            ChartStyle.drawText(g, number, ChartStyle.smallFont(), ChartStyle.INK, x, place.getMaxY() - 6 * UNIT, 0);
            frame = frame == null ? place : frame.createUnion(place);
        }
        if (frame != null) {
            g.setColor(ChartStyle.INK);
            g.setStroke(ChartStyle.hairline(1.75));
            g.draw(frame);
        }
    }

    private void paintLegend(Graphics2D g, double baseline) {
        double x = LEFT;
        for (TileState state : List.of(TileState.WHOLE, TileState.MASKED, TileState.SKIPPED)) {
            double swatch = 10 * UNIT;
            g.setColor(COLORS.get(state));
            g.fill(new Rectangle2D.Double(x, baseline - swatch + UNIT, swatch, swatch));
            if (state == TileState.MASKED) {
                g.setColor(HIDDEN);
                g.fill(new Rectangle2D.Double(x + swatch / 2, baseline - swatch + UNIT, swatch / 2, swatch / 2));
            }
            x += swatch + 5 * UNIT;
            ChartStyle.drawText(g, NAMES.get(state), ChartStyle.smallFont(), ChartStyle.INK, x, baseline, 0);
            x += ChartStyle.width(NAMES.get(state), ChartStyle.smallFont()) + 16 * UNIT;
        }
    }
}
