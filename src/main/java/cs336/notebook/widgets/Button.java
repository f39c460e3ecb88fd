package cs336.notebook.widgets;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import cs336.charts.Svg;
import io.github.spencerpark.jupyter.kernel.display.Renderer;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;

/** A button. */
public final class Button extends Widget {
    private final String label;
    private final List<ChangeListener<Button>> listeners = new CopyOnWriteArrayList<>();

    /** Creates a button that does nothing yet. */
    public Button(String label) {
        this.label = label;
    }

    /**
     * Calls a listener after each click, on the thread that runs cells.
     *
     * @return this button
     */
    public Button onClick(ChangeListener<Button> listener) {
        listeners.add(listener);
        return this;
    }

    @Override
    void custom(JsonObject event) {
        JsonElement name = event.get("event");
        if (new JsonPrimitive("click").equals(name)) {
            Callable<?> clicked = () -> {
                for (ChangeListener<Button> listener : listeners) {
                    listener.changed(this);
                }
                return null;
            };
            comms().host().run(clicked);
        }
    }

    @Override
    JsonObject state() {
        JsonObject state = visible(CONTROLS, VERSION, "Button");
        state.addProperty("description", label);
        state.addProperty("disabled", false);
        state.addProperty("icon", "");
        state.addProperty("button_style", "");
        return state;
    }

    @Override
    String text() {
        return "[" + label + "]";
    }

    @Override
    String html(Renderer renderer) {
        return "<button type=\"button\" disabled>" + Svg.escape(label) + "</button>\n";
    }
}
