package cs336.notebook.widgets;

import com.google.gson.JsonObject;
import io.github.spencerpark.jupyter.kernel.display.Renderer;

/** A widget that shows HTML. */
public final class Html extends TextWidget {
    /** Creates a widget with this HTML. */
    public Html(String html) {
        super(html);
    }

    @Override
    JsonObject state() {
        return state("HTML");
    }

    @Override
    String text() {
        return value().replaceAll("<[^>]*>", "");
    }

    @Override
    String html(Renderer renderer) {
        return "<div>" + value() + "</div>\n";
    }
}
