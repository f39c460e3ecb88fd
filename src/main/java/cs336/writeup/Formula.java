package cs336.writeup;

import cs336.charts.Figure;
import cs336.charts.Svg;
import cs336.charts.Typeface;
import java.awt.Color;
import java.awt.Insets;
import java.util.Locale;
import org.jfree.svg.SVGGraphics2D;
import org.jfree.svg.SVGHints;
import org.scilab.forge.jlatexmath.ParseException;
import org.scilab.forge.jlatexmath.TeXConstants;
import org.scilab.forge.jlatexmath.TeXFormula;
import org.scilab.forge.jlatexmath.TeXIcon;

/** A formula in TeX as an SVG element, its letters as outlines, on the baseline of the text around it. */
final class Formula {
    /** Points of the drawing an em; large, since the drawing's box is in whole points. */
    private static final float EM = 100;

    /** Computer Modern is light and small beside the text font. */
    private static final double RELATIVE_SIZE = 1.08;

    private Formula() {}

    /**
     * @param tex without dollars
     * @param display whether it stands on a line of its own
     * @throws IllegalArgumentException where TeX does not understand it
     */
    static synchronized String svg(String tex, boolean display) {
        Typeface.prepare();
        requireBalanced(tex);
        TeXIcon icon;
        try {
            icon = new TeXFormula(tex)
                    .createTeXIcon(display ? TeXConstants.STYLE_DISPLAY : TeXConstants.STYLE_TEXT, EM);
        } catch (ParseException e) {
            throw new IllegalArgumentException("formula " + tex.strip() + ": " + e.getMessage(), e);
        }
        // Italic letters lean out of their boxes.
        icon.setInsets(new Insets(2, 2, 2, 6), true);
        icon.setForeground(Color.BLACK);
        int width = icon.getIconWidth();
        int height = icon.getIconHeight();
        var g = new SVGGraphics2D(width, height);
        g.setGeomDoubleConverter(Figure::twoDecimals);
        g.setTransformDoubleConverter(Figure::twoDecimals);
        g.setRenderingHint(SVGHints.KEY_DRAW_STRING_TYPE, SVGHints.VALUE_DRAW_STRING_TYPE_VECTOR);
        icon.paintIcon(null, g, 0, 0);
        String style = "width:" + em(width) + ";height:" + em(height)
                + (display ? "" : ";vertical-align:" + em(-icon.getIconDepth()));
        return "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"formula\" role=\"img\" aria-label=\""
                + Svg.escape(tex.strip().replaceAll("\\s+", " ")) + "\" style=\"" + style + "\" viewBox=\"0 0 " + width
                + " " + height + "\">" + Svg.body(g) + "</svg>";
    }

    /** JLaTeXMath closes open braces by itself, which hides the mistake. */
    private static void requireBalanced(String tex) {
        int open = 0;
        for (int i = 0; i < tex.length() && open >= 0; i++) {
            switch (tex.charAt(i)) {
                case '\\' -> i++;
                case '{' -> open++;
                case '}' -> open--;
                default -> {}
            }
        }
        if (open != 0) {
            throw new IllegalArgumentException(
                    "formula " + tex.strip() + ": " + (open > 0 ? "} is missing" : "} without {"));
        }
    }

    private static String em(double points) {
        return String.format(Locale.ROOT, "%.3fem", points / EM * RELATIVE_SIZE);
    }
}
