package cs336.notebook.widgets;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;

/**
 * A slider over evenly spaced numbers, which the browser knows by their values.
 *
 * @param <T> the type of the numbers
 */
abstract sealed class NumberSlider<T extends Number> extends Control<T> permits FloatSlider, IntSlider {
    private final String name;

    /** Creates a slider whose view has this name among ipywidgets' controls. */
    NumberSlider(String label, String name) {
        super(label, "SliderStyleModel");
        this.name = name;
    }

    /** Returns the difference of neighbouring values. */
    abstract T step();

    /** Returns the format of the selected value, in the syntax of d3-format. */
    abstract String readoutFormat();

    @Override
    final String key() {
        return "value";
    }

    @Override
    final JsonPrimitive wire(int index) {
        return new JsonPrimitive(choice(index));
    }

    /** Returns the step that is nearest to a value of the browser, whose text field ignores steps. */
    @Override
    final int received(JsonElement sent) {
        double value = number(sent);
        double min = choice(0).doubleValue();
        double step = step().doubleValue();
        double max = min + (count() - 1) * step;
        double tolerance = step * 1e-6;
        if (value < min - tolerance || value > max + tolerance) {
            throw new IllegalArgumentException("the value must be between " + min + " and " + max + ", not " + sent);
        }
        return (int) Math.round((value - min) / step);
    }

    @Override
    final JsonObject ownState() {
        JsonObject state = visible(CONTROLS, VERSION, name);
        state.addProperty("min", choice(0));
        state.addProperty("max", choice(count() - 1));
        state.addProperty("step", step());
        state.addProperty("orientation", "horizontal");
        state.addProperty("readout", true);
        state.addProperty("readout_format", readoutFormat());
        state.addProperty("continuous_update", true);
        state.addProperty("behavior", "drag-tap");
        return state;
    }

    @Override
    final String input(int selected) {
        return range(selected);
    }
}
