package cs336.charts;

import java.awt.BasicStroke;
import java.awt.Color;
import java.awt.Font;
import java.awt.Graphics2D;
import java.awt.Shape;
import java.awt.font.FontRenderContext;
import java.awt.font.TextLayout;
import java.awt.geom.AffineTransform;
import java.math.BigDecimal;
import java.math.MathContext;
import java.text.DecimalFormat;
import java.text.DecimalFormatSymbols;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
import org.knowm.xchart.style.AxesChartStyler;
import org.knowm.xchart.style.Styler.LegendPosition;
import org.knowm.xchart.style.markers.Marker;
import org.knowm.xchart.style.markers.SeriesMarkers;

/**
 * The style of all charts: fonts, a palette for colour-blind readers, line widths and spacing.
 *
 * <p>Charts are laid out in drawing units of half a pixel, because XChart rounds text widths and positions to whole
 * units.
 */
public final class ChartStyle {
    /** Drawing units per pixel. */
    public static final int UNITS = 2;

    /** Default width of a chart in drawing units. */
    public static final int WIDTH = 640 * UNITS;

    /** Default height of a chart in drawing units. */
    public static final int HEIGHT = 380 * UNITS;

    /**
     * Qualitative palette of Okabe and Ito, "Color Universal Design" (2008), without its yellow, which has too little
     * contrast on white.
     */
    static final List<Color> PALETTE = List.of(
            new Color(0x0072B2),
            new Color(0xD55E00),
            new Color(0x009E73),
            new Color(0xCC79A7),
            new Color(0xE69F00),
            new Color(0x56B4E9),
            new Color(0x000000));

    /** The palette, and a grey for timelines with eight kinds of bars. */
    private static final List<Color> COLORS =
            Stream.concat(PALETTE.stream(), Stream.of(new Color(0x999999))).toList();

    /** Colour of text and axes. */
    public static final Color INK = new Color(0x222222);

    /** Colour of ticks and thin lines. */
    public static final Color FAINT_INK = new Color(0x666666);

    /** Colour of grid lines. */
    public static final Color GRID = new Color(0xE4E4E4);

    private static final List<Marker> MARKERS = List.of(
            SeriesMarkers.CIRCLE,
            SeriesMarkers.SQUARE,
            SeriesMarkers.TRIANGLE_UP,
            SeriesMarkers.DIAMOND,
            SeriesMarkers.TRIANGLE_DOWN,
            SeriesMarkers.OVAL,
            SeriesMarkers.RECTANGLE);

    private static final FontRenderContext EXACT = new FontRenderContext(null, true, true);

    private static final DecimalFormatSymbols SYMBOLS = DecimalFormatSymbols.getInstance(Locale.ROOT);

    static {
        SYMBOLS.setMinusSign('\u2212');
    }

    private ChartStyle() {}

    /** Returns the colour of a series; colours repeat after the eighth one. */
    public static Color color(int series) {
        return COLORS.get(Math.floorMod(series, COLORS.size()));
    }

    /** Returns the marker of a series; markers repeat after the last one. */
    static Marker marker(int series) {
        return MARKERS.get(series % MARKERS.size());
    }

    /** Returns a darker shade of a colour, for small text on white. */
    static Color forText(Color color) {
        return new Color(color.getRed() * 7 / 10, color.getGreen() * 7 / 10, color.getBlue() * 7 / 10);
    }

    /** Returns the font of axis titles and series names. */
    static Font textFont() {
        return Typeface.REGULAR.font(13f * UNITS);
    }

    /** Returns the font of tick labels and legends. */
    public static Font smallFont() {
        return Typeface.REGULAR.font(12f * UNITS);
    }

    /** Returns the font of titles. */
    public static Font titleFont() {
        return Typeface.SEMIBOLD.font(14f * UNITS);
    }

    /** Returns a stroke with round caps, for the lines of series. */
    static BasicStroke stroke(double pixels) {
        return new BasicStroke((float) (pixels * UNITS), BasicStroke.CAP_ROUND, BasicStroke.JOIN_ROUND);
    }

    /** Returns a stroke with butt caps, which has the shortest SVG description, for thin lines. */
    public static BasicStroke hairline(double pixels) {
        return new BasicStroke((float) (pixels * UNITS), BasicStroke.CAP_BUTT, BasicStroke.JOIN_MITER, 4);
    }

    /** Applies fonts, colours and spacing to a chart with axes. */
    public static void apply(AxesChartStyler styler) {
        styler.setLocale(Locale.ROOT);
        styler.setBaseFont(textFont());
        styler.setChartTitleFont(titleFont());
        styler.setAxisTitleFont(textFont());
        styler.setAxisTickLabelsFont(smallFont());
        styler.setLegendFont(smallFont());
        styler.setAnnotationTextFont(smallFont());
        styler.setAnnotationTextPanelFont(smallFont());
        styler.setToolTipFont(smallFont());

        styler.setChartBackgroundColor(Color.WHITE);
        styler.setPlotBackgroundColor(Color.WHITE);
        styler.setPlotBorderVisible(false);
        styler.setChartFontColor(INK);
        styler.setChartTitleBoxVisible(false);
        styler.setChartTitlePadding(3 * UNITS);
        styler.setAxisTickLabelsColor(INK);
        styler.setAxisTickMarksColor(FAINT_INK);
        styler.setAxisTickMarksStroke(hairline(0.75));
        styler.setAxisTickMarkLength(4 * UNITS);
        styler.setAxisTickPadding(3 * UNITS);
        styler.setAxisTitlePadding(6 * UNITS);
        styler.setPlotGridLinesColor(GRID);
        styler.setPlotGridLinesStroke(hairline(0.75));
        styler.setPlotGridVerticalLinesVisible(false);
        styler.setPlotMargin(0);
        styler.setChartPadding(6 * UNITS);
        styler.setYAxisLabelAlignment(AxesChartStyler.TextAlignment.Right);

        styler.setSeriesColors(PALETTE.toArray(new Color[0]));
        styler.setSeriesLines(new BasicStroke[] {stroke(1.75)});
        styler.setSeriesMarkers(MARKERS.toArray(new Marker[0]));
        styler.setMarkerSize(6 * UNITS);
        styler.setLegendVisible(false);
        styler.setLegendPosition(LegendPosition.OutsideS);
        styler.setLegendBorderColor(Color.WHITE);
        styler.setLegendPadding(4 * UNITS);
    }

    /** Formats a number as a tick label: {@code 0.05}, {@code 20}, {@code 1,000}, {@code 65,536}, {@code 1e9}. */
    public static String number(double value) {
        if (value != 0 && (Math.abs(value) >= 1e7 || Math.abs(value) < 1e-4)) {
            return new DecimalFormat("0.##E0", SYMBOLS).format(value).replace('E', 'e');
        }
        return new DecimalFormat(Math.abs(value) < 1e4 ? "#,##0.#####" : "#,##0.##", SYMBOLS).format(value);
    }

    /** Formats a number with four significant digits. */
    public static String rounded(double value) {
        return Double.isFinite(value)
                ? number(new BigDecimal(value, new MathContext(4)).doubleValue())
                : String.valueOf(value);
    }

    /** Returns the advance width of a text in drawing units. */
    public static double width(String text, Font font) {
        return text.isEmpty() ? 0 : new TextLayout(text, font, EXACT).getAdvance();
    }

    /** Draws text as outlines from the baseline origin (x, y), rotated clockwise by an angle in degrees. */
    public static void drawText(Graphics2D g, String text, Font font, Color color, double x, double y, double degrees) {
        if (text.isEmpty()) {
            return;
        }
        AffineTransform place = AffineTransform.getTranslateInstance(x, y);
        place.rotate(Math.toRadians(degrees));
        Shape outline = new TextLayout(text, font, EXACT).getOutline(place);
        g.setColor(color);
        g.fill(outline);
    }
}
