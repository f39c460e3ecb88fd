package cs336.notebook.widgets;

import com.google.gson.JsonObject;
import cs336.charts.Svg;
import io.github.spencerpark.jupyter.kernel.display.Renderer;

/** A line of text. */
public final class Label extends TextWidget {
    /** Creates a label. */
    public Label(String text) {
        super(text);
    }

    @Override
    JsonObject state() {
        return state("Label");
    }

    @Override
    String text() {
        return value();
    }

    @Override
    String html(Renderer renderer) {
        return "<div>" + Svg.escape(value()) + "</div>\n";
    }
}
