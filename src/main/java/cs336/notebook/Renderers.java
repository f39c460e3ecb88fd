package cs336.notebook;

import cs336.bench.BenchmarkResult;
import cs336.charts.Figure;
import cs336.charts.Svg;
import cs336.notebook.widgets.WidgetComms;
import cs336.notebook.widgets.WidgetRenderers;
import cs336.profile.FlameGraph;
import cs336.units.HostLoad;
import io.github.spencerpark.jupyter.kernel.display.RenderContext;
import io.github.spencerpark.jupyter.kernel.display.Renderer;
import io.github.spencerpark.jupyter.kernel.display.mime.MIMEType;
import java.awt.image.RenderedImage;
import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
import org.bytedeco.pytorch.Tensor;
import org.knowm.xchart.internal.chartpart.Chart;
import tech.tablesaw.api.Table;

/**
 * Renderers of values in notebooks. {@link #registerIn} lists the types; other values are shown as {@link PlainText}.
 */
public final class Renderers {
    private static final Set<Renderer> REGISTERED =
            Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));

    /**
     * The HTML of a text whose long lines break between words. JupyterLab breaks lines of plain text inside of words.
     */
    private static final String BETWEEN_WORDS =
            "<pre style=\"margin: 0; padding: 5px; white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere;"
                    + " font-size: var(--jp-code-font-size, 13.2px); line-height: var(--jp-code-line-height, inherit)\">"
                    + "%s</pre>\n";

    private Renderers() {}

    /**
     * Registers the renderers of this project in a kernel. {@link JavaKernel} does so itself; on IJava, the first cell
     * of a notebook calls {@code Renderers.registerIn(getKernelInstance().getRenderer())}. A second call has no effect.
     */
    public static void registerIn(Renderer renderer) {
        HostLoad.warnOnce(warning -> System.out.println(warning)); // JavaKernel does so in front of each cell
        registerIn(renderer, null);
    }

    /** @param comms the comms of widgets; null if the kernel has none */
    static void registerIn(Renderer renderer, WidgetComms comms) {
        if (!REGISTERED.add(renderer)) {
            return;
        }
        MIMEType text = MIMEType.TEXT_PLAIN;
        renderer.createRegistration(Object.class)
                .preferring(text, MIMEType.TEXT_HTML)
                .register((value, to) -> {
                    String shown = PlainText.of(value);
                    put(to, text, shown);
                    if (shown.lines().anyMatch(line -> line.length() > JavaKernel.MOST_COLUMNS)) {
                        to.renderIfRequested(MIMEType.TEXT_HTML, () -> BETWEEN_WORDS.formatted(Svg.escape(shown)));
                    }
                });
        renderer.createRegistration(Check.Hint.class)
                .preferring(text, MIMEType.TEXT_MARKDOWN)
                .register((hint, to) -> {
                    put(to, text, hint.text());
                    to.renderIfRequested(MIMEType.TEXT_MARKDOWN, hint::text);
                });
        renderer.createRegistration(Tensor.class)
                .preferring(text)
                .register((tensor, to) -> put(to, text, TensorSummary.of(tensor)));
        renderer.createRegistration(Table.class)
                .preferring(text, MIMEType.TEXT_HTML)
                .register((table, to) -> {
                    put(to, text, TableView.text(table));
                    to.renderIfRequested(MIMEType.TEXT_HTML, () -> TableView.html(table));
                });
        renderer.createRegistration(BenchmarkResult.class)
                .preferring(text, MIMEType.TEXT_HTML)
                .register((result, to) -> {
                    put(to, text, result.toString());
                    to.renderIfRequested(MIMEType.TEXT_HTML, () -> TableView.html(result.table()));
                });
        renderer.createRegistration(Figure.class)
                .preferring(MIMEType.TEXT_HTML, MIMEType.IMAGE_PNG)
                .supporting(MIMEType.IMAGE_SVG)
                .register((figure, to) -> Picture.of(figure).renderTo(to));
        renderer.createRegistration(FlameGraph.class)
                .preferring(MIMEType.TEXT_HTML, MIMEType.IMAGE_PNG)
                .supporting(MIMEType.IMAGE_SVG)
                .register((graph, to) -> Picture.of(FlameView.still(graph)).renderTo(to, () -> FlameView.html(graph)));
        renderer.createRegistration(Chart.class)
                .preferring(MIMEType.TEXT_HTML, MIMEType.IMAGE_PNG)
                .supporting(MIMEType.IMAGE_SVG)
                .register((chart, to) -> Picture.of(chart).renderTo(to));
        renderer.createRegistration(RenderedImage.class)
                .preferring(MIMEType.IMAGE_PNG)
                .register((image, to) -> Picture.of(image).renderTo(to));
        WidgetRenderers.registerIn(renderer, comms);
    }

    private static void put(RenderContext to, MIMEType type, String content) {
        to.getOutputContainer().putData(type, content);
    }

    /** Flame graphs in notebooks: the interactive document in a frame, and the static picture for print. */
    private static final class FlameView {
        private FlameView() {}

        static String description(FlameGraph graph) {
            return "Flame graph" + (graph.title().isEmpty() ? "" : ": " + graph.title());
        }

        static Figure still(FlameGraph graph) {
            return graph.figure("flamegraph", description(graph));
        }

        static String html(FlameGraph graph) {
            String svg = still(graph).svg();
            String ratio = ratio(svg);
            // A separate document, whose script and ids cannot disturb the page.
            String document = "<style>body { margin: 0; } svg { width: 100%; height: auto; }</style>" + graph.svg();
            return Picture.STYLE + "<iframe class=\"cs336-figure\" title=\"" + Svg.escape(description(graph))
                    + "\" style=\"width: 100%; border: 0; aspect-ratio: " + ratio
                    + "\" sandbox=\"allow-scripts\" srcdoc=\""
                    + document.replace("&", "&amp;").replace("\"", "&quot;") + "\"></iframe>\n"
                    + "<details><summary>static picture</summary>" + Picture.image(description(graph), svg)
                    + "</details>\n";
        }

        /** Returns the width and height of an SVG document as CSS's {@code aspect-ratio}. */
        private static String ratio(String svg) {
            return svg.replaceFirst("(?s)^.*?viewBox=['\"]0 0 ([\\d.]+) ([\\d.]+)['\"].*$", "$1 / $2");
        }
    }
}
