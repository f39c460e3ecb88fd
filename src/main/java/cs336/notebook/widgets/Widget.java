package cs336.notebook.widgets;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import io.github.spencerpark.jupyter.kernel.display.Renderer;
import java.util.List;
import java.util.UUID;

/**
 * A widget: a model whose state the kernel shares with its copy in the browser.
 *
 * <p>A widget is opened when a cell first shows it. Its state follows ipywidgets' models, version 2.0.0 of
 * {@code @jupyter-widgets/base} and {@code @jupyter-widgets/controls}.
 */
public abstract class Widget implements AutoCloseable {
    static final String VERSION = "2.0.0";
    static final String BASE = "@jupyter-widgets/base";
    static final String CONTROLS = "@jupyter-widgets/controls";

    private final String id = UUID.randomUUID().toString().replace("-", "");
    private volatile WidgetComms comms;

    /** Returns the id of the model and of its comm. */
    final String id() {
        return id;
    }

    final void attach(WidgetComms to) {
        comms = to;
    }

    /** Returns the comms of the kernel that shows this widget; null if it is not shown. */
    final WidgetComms comms() {
        WidgetComms shown = comms;
        return shown != null && shown.isOpen(this) ? shown : null;
    }

    /** Returns the widgets that the state refers to. */
    List<Widget> parts() {
        return List.of();
    }

    /** Returns the whole state. */
    abstract JsonObject state();

    /** Returns the text that is shown where there are no widgets. */
    abstract String text();

    /** Returns the HTML that is shown where there are no widgets. */
    abstract String html(Renderer renderer);

    /** Removes this widget from the notebook. A cell can show it again. */
    @Override
    public void close() {
        WidgetComms shown = comms();
        if (shown != null) {
            shown.close(this);
        }
    }

    /** Sends one entry of the state to the browser, if the widget is shown. */
    final void send(String key, JsonElement value) {
        var state = new JsonObject();
        state.add(key, value);
        send("update", state);
    }

    final void send(String method, JsonObject state) {
        WidgetComms shown = comms();
        if (shown != null) {
            shown.update(this, method, state);
        }
    }

    /**
     * Handles a message of the browser.
     *
     * @throws IllegalArgumentException if it is malformed
     */
    final void receive(JsonObject data) {
        JsonElement method = data.get("method");
        String name = method != null && method.isJsonPrimitive() ? method.getAsString() : "";
        switch (name) {
            case "update" -> update(object(data, "state"));
            case "request_state" -> send("update", state());
            case "custom" -> custom(object(data, "content"));
            default ->
                throw new IllegalArgumentException(
                        "comm_msg: method must be update, request_state or custom, not " + method);
        }
    }

    private static JsonObject object(JsonObject data, String key) {
        JsonElement value = data.get(key);
        if (value == null || !value.isJsonObject()) {
            throw new IllegalArgumentException("comm_msg: " + key + " must be an object, not " + value);
        }
        return value.getAsJsonObject();
    }

    /** Handles a change in the browser. Entries that the browser does not change are ignored. */
    void update(JsonObject changed) {}

    /** Handles an event in the browser. Unknown events are ignored. */
    void custom(JsonObject event) {}

    /** Returns the entries that all models have. */
    static JsonObject model(String module, String version, String name, String view) {
        var state = new JsonObject();
        state.addProperty("_model_module", module);
        state.addProperty("_model_module_version", version);
        state.addProperty("_model_name", name);
        state.addProperty("_view_module", module);
        state.addProperty("_view_module_version", version);
        state.addProperty("_view_name", view);
        state.add("_view_count", JsonNull.INSTANCE);
        return state;
    }

    /** Returns the entries of a model with a view, whose names begin with {@code name}. */
    static JsonObject visible(String module, String version, String name) {
        JsonObject state = model(module, version, name + "Model", name + "View");
        state.add("_dom_classes", new JsonArray());
        state.add("tabbable", JsonNull.INSTANCE);
        state.add("tooltip", JsonNull.INSTANCE);
        return state;
    }

    /** Returns the reference to another model in a state. */
    static String reference(Widget widget) {
        return "IPY_MODEL_" + widget.id();
    }
}
