package cs336.notebook.widgets;

import com.google.gson.JsonObject;
import java.util.List;

/**
 * A slider over a list of values, such as powers of two.
 *
 * @param <T> the type of the values
 */
public final class OptionSlider<T> extends OptionControl<T> {
    /**
     * Creates a slider at the first value.
     *
     * @throws IllegalArgumentException if there are fewer than two values
     */
    public OptionSlider(String label, List<? extends T> options) {
        super(label, "SliderStyleModel", options);
        if (options.size() < 2) {
            throw new IllegalArgumentException(
                    "the slider \"" + label + "\" needs at least two values, not " + options);
        }
    }

    @Override
    public OptionSlider<T> at(T value) {
        super.at(value);
        return this;
    }

    @Override
    JsonObject ownState() {
        JsonObject state = options("SelectionSlider");
        state.addProperty("orientation", "horizontal");
        state.addProperty("readout", true);
        state.addProperty("continuous_update", true);
        state.addProperty("behavior", "drag-tap");
        return state;
    }

    @Override
    String input(int selected) {
        return range(selected);
    }
}
