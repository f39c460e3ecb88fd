package cs336.notebook;

import cs336.charts.Figure;
import cs336.charts.Svg;
import cs336.profile.FlameGraph;

/** Flame graphs in notebooks: the interactive document in a frame, and the static picture for print. */
final class FlameView {
    private FlameView() {}

    static String description(FlameGraph graph) {
        return "Flame graph" + (graph.title().isEmpty() ? "" : ": " + graph.title());
    }

    static String html(FlameGraph graph) {
        Figure still = graph.figure("flamegraph", description(graph));
        String svg = still.svg();
        String ratio = ratio(svg);
        // A document of its own, whose script and ids cannot disturb the page.
        String document = "<style>body { margin: 0; } svg { width: 100%; height: auto; }</style>" + graph.svg();
        return Picture.STYLE + "<iframe class=\"cs336-figure\" title=\"" + Svg.escape(description(graph))
                + "\" style=\"width: 100%; border: 0; aspect-ratio: " + ratio + "\" sandbox=\"allow-scripts\" srcdoc=\""
                + document.replace("&", "&amp;").replace("\"", "&quot;") + "\"></iframe>\n"
                + "<details><summary>static picture</summary>" + Picture.image(description(graph), svg)
                + "</details>\n";
    }

    /** Returns the width and height of an SVG document as CSS's {@code aspect-ratio}. */
    private static String ratio(String svg) {
        return svg.replaceFirst("(?s)^.*?viewBox=['\"]0 0 ([\\d.]+) ([\\d.]+)['\"].*$", "$1 / $2");
    }
}
