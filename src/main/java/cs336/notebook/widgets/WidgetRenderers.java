package cs336.notebook.widgets;

import io.github.spencerpark.jupyter.kernel.display.RenderContext;
import io.github.spencerpark.jupyter.kernel.display.Renderer;
import io.github.spencerpark.jupyter.kernel.display.mime.MIMEType;
import java.util.Map;
import java.util.function.Function;

/** Renderers of widgets. */
public final class WidgetRenderers {
    private static final String VIEW = "application/vnd.jupyter.widget-view+json";

    private WidgetRenderers() {}

    /**
     * Registers the renderers of widgets and interactions.
     *
     * @param comms the comms of the kernel; null if it has none, such as IJava
     */
    public static void registerIn(Renderer renderer, WidgetComms comms) {
        renderer.createRegistration(Widget.class)
                .preferring(MIMEType.TEXT_PLAIN, MIMEType.TEXT_HTML)
                .register((widget, to) -> {
                    to.getOutputContainer().putText(widget.text());
                    to.renderIfRequested(MIMEType.TEXT_HTML, () -> widget.html(renderer));
                    view(to, comms, live -> {
                        live.open(widget);
                        return widget;
                    });
                });
        renderer.createRegistration(Interaction.class)
                .preferring(MIMEType.TEXT_PLAIN, MIMEType.TEXT_HTML)
                .register((interaction, to) -> {
                    to.getOutputContainer().putText(interaction.text(renderer));
                    to.renderIfRequested(MIMEType.TEXT_HTML, () -> InteractionHtml.of(interaction, renderer));
                    view(to, comms, interaction::open);
                });
    }

    /** Adds a view of a widget that the kernel opens, if there is a widget manager to show it. */
    private static void view(RenderContext to, WidgetComms comms, Function<WidgetComms, Widget> open) {
        if (comms != null && comms.areLive() && to.wantsDataRenderedAs(MIMEType.TEXT_HTML)) {
            String id = open.apply(comms).id();
            to.getOutputContainer().putData(VIEW, Map.of("version_major", 2, "version_minor", 0, "model_id", id));
        }
    }
}
