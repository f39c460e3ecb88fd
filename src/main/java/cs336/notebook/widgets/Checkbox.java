package cs336.notebook.widgets;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;

/** A checkbox. */
public final class Checkbox extends Control<Boolean> {
    /** Creates a checkbox that is not checked. */
    public Checkbox(String label) {
        super(label, "CheckboxStyleModel");
    }

    @Override
    public Checkbox at(Boolean value) {
        super.at(value);
        return this;
    }

    @Override
    int count() {
        return 2;
    }

    @Override
    Boolean choice(int index) {
        return index == 1;
    }

    @Override
    int indexOf(Boolean value) {
        return value ? 1 : 0;
    }

    @Override
    String show(int index) {
        return String.valueOf(choice(index));
    }

    @Override
    String key() {
        return "value";
    }

    @Override
    JsonPrimitive wire(int index) {
        return new JsonPrimitive(choice(index));
    }

    @Override
    int received(JsonElement sent) {
        if (sent instanceof JsonPrimitive primitive && primitive.isBoolean()) {
            return indexOf(primitive.getAsBoolean());
        }
        throw new IllegalArgumentException("the value must be true or false, not " + sent);
    }

    @Override
    JsonObject ownState() {
        JsonObject state = visible(CONTROLS, VERSION, "Checkbox");
        state.addProperty("indent", isAligned());
        return state;
    }

    @Override
    String input(int selected) {
        return "<input type=\"checkbox\"" + (selected == 1 ? " checked" : "") + ">";
    }
}
