package cs336.notebook.widgets;

import com.google.gson.JsonObject;
import io.github.spencerpark.jupyter.kernel.display.Renderer;
import java.util.List;

/** A row of widgets. */
public final class HBox extends Container {
    /** Creates a row. */
    public HBox(List<? extends Widget> children) {
        super(children);
    }

    @Override
    JsonObject state() {
        return state("HBox");
    }

    @Override
    String html(Renderer renderer) {
        return html(renderer, " style=\"display: flex; flex-wrap: wrap; gap: 1em\"");
    }
}
