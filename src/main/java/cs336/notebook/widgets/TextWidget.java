package cs336.notebook.widgets;

import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;

/** A widget that shows text. */
abstract sealed class TextWidget extends Widget permits Label, Html {
    private volatile String value;

    TextWidget(String value) {
        this.value = value;
    }

    /** Returns the text. */
    public final String value() {
        return value;
    }

    /** Replaces the text. */
    public final void value(String text) {
        value = text;
        send("value", new JsonPrimitive(text));
    }

    final JsonObject state(String name) {
        JsonObject state = visible(CONTROLS, VERSION, name);
        state.addProperty("description", "");
        state.addProperty("description_allow_html", false);
        state.addProperty("placeholder", "");
        state.addProperty("value", value);
        return state;
    }
}
