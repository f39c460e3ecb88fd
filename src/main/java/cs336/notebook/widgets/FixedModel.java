package cs336.notebook.widgets;

import com.google.gson.JsonObject;
import io.github.spencerpark.jupyter.kernel.display.Renderer;
import java.util.Map;

/** The layout or style of a widget, whose state never changes. */
final class FixedModel extends Widget {
    private final JsonObject state;

    private FixedModel(JsonObject state, Map<String, String> css) {
        this.state = state;
        css.forEach(state::addProperty);
    }

    /** Returns a layout with these CSS properties. */
    static FixedModel layout(Map<String, String> css) {
        return new FixedModel(model(BASE, VERSION, "LayoutModel", "LayoutView"), css);
    }

    /** Returns a style with a model of the package of controls. */
    static FixedModel style(String model, Map<String, String> css) {
        JsonObject state = model(CONTROLS, VERSION, model, "StyleView");
        state.addProperty("_view_module", BASE);
        return new FixedModel(state, css);
    }

    @Override
    JsonObject state() {
        return state.deepCopy();
    }

    @Override
    String text() {
        return "";
    }

    @Override
    String html(Renderer renderer) {
        return "";
    }
}
