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

/** Conversion of TeX formulas to SVG elements on the baseline of the surrounding text, with glyphs as outlines. */
final class Formula {
    /** Size of an em in points of the drawing; large, because the width and height of a drawing are whole points. */
    private static final float EM = 100;

    /** Scale relative to the text, because Computer Modern looks smaller than the text font. */
    private static final double RELATIVE_SIZE = 1.08;

    private Formula() {}

    /**
     * Returns a formula as an SVG element.
     *
     * @param tex formula without dollar signs
     * @param display true for a formula on its own line
     * @throws IllegalArgumentException if the formula is not valid TeX
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
        } catch (RuntimeException | StackOverflowError e) { // JLaTeXMath does not check everything
            throw new IllegalArgumentException("a formula is not valid TeX: " + e, e);
        }
        // Italic glyphs extend beyond their boxes.
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

    /** Rejects unbalanced braces, because JLaTeXMath silently closes open ones. */
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
