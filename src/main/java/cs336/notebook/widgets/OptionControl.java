package cs336.notebook.widgets;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import cs336.units.Separators;
import java.util.List;
import java.util.Objects;

/**
 * A control over a list of any values.
 *
 * @param <T> the type of the values
 */
abstract sealed class OptionControl<T> extends Control<T> permits Dropdown, OptionSlider {
    private final List<T> options;

    OptionControl(String label, String styleModel, List<? extends T> options) {
        super(label, styleModel);
        Objects.requireNonNull(options, "values must not be null");
        if (options.isEmpty()) {
            throw new IllegalArgumentException("the control \"" + label + "\" needs at least one value");
        }
        if (options.stream().anyMatch(Objects::isNull)) {
            throw new IllegalArgumentException("a value of the control \"" + label + "\" is null");
        }
        this.options = List.copyOf(options);
    }

    @Override
    final int count() {
        return options.size();
    }

    @Override
    final T choice(int index) {
        return options.get(index);
    }

    @Override
    final int indexOf(T value) {
        return options.indexOf(value);
    }

    @Override
    final String show(int index) {
        T option = options.get(index);
        String text = String.valueOf(option);
        if (option instanceof Double || option instanceof Float) {
            text = text.replaceFirst("\\.0(?=E|$)", "").replace('E', 'e');
        }
        return option instanceof Number ? Separators.of(label(), text) : text;
    }

    @Override
    final String key() {
        return "index";
    }

    @Override
    final JsonPrimitive wire(int index) {
        return new JsonPrimitive(index);
    }

    @Override
    final int received(JsonElement sent) {
        double position = number(sent);
        if (position != Math.rint(position) || position < 0 || position >= count()) {
            throw new IllegalArgumentException("the index must be a whole number below " + count() + ", not " + sent);
        }
        return (int) position;
    }

    /** Returns the state of a model with options. */
    final JsonObject options(String name) {
        JsonObject state = visible(CONTROLS, VERSION, name);
        var labels = new JsonArray();
        for (int i = 0; i < count(); i++) {
            labels.add(show(i));
        }
        state.add("_options_labels", labels);
        return state;
    }
}
