package cs336.notebook.widgets;

import com.google.gson.JsonObject;
import io.github.spencerpark.jupyter.kernel.display.Renderer;
import java.util.List;

/** A column of widgets. */
public final class VBox extends Container {
    /** Creates a column. */
    public VBox(List<? extends Widget> children) {
        super(children);
    }

    @Override
    JsonObject state() {
        return state("VBox");
    }

    @Override
    String html(Renderer renderer) {
        return html(renderer, "");
    }
}
