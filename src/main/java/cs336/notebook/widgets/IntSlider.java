package cs336.notebook.widgets;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;

/** A slider over whole numbers. */
public final class IntSlider extends Control<Integer> {
    private final int min;
    private final int step;
    private final int count;

    /**
     * Creates a slider at its smallest value.
     *
     * @param max the largest value, unless it is not a whole number of steps above {@code min}
     * @param step the difference of neighbouring values
     * @throws IllegalArgumentException if there are fewer than two values
     */
    public IntSlider(String label, int min, int max, int step) {
        super(label, "SliderStyleModel");
        if (step < 1 || (long) min + step > max) {
            throw new IllegalArgumentException("the slider \"" + label
                    + "\" needs step ≥ 1 and max ≥ min + step, not min " + min + ", max " + max + ", step " + step);
        }
        this.min = min;
        this.step = step;
        count = (int) Math.min(Integer.MAX_VALUE, ((long) max - min) / step + 1);
    }

    @Override
    public IntSlider at(Integer value) {
        super.at(value);
        return this;
    }

    @Override
    int count() {
        return count;
    }

    @Override
    Integer choice(int index) {
        return min + index * step;
    }

    @Override
    int indexOf(Integer value) {
        long above = (long) value - min;
        return above >= 0 && above % step == 0 && above / step < count ? (int) (above / step) : -1;
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
        return nearest(sent, min, step, count);
    }

    @Override
    JsonObject ownState() {
        JsonObject state = visible(CONTROLS, VERSION, "IntSlider");
        state.addProperty("min", min);
        state.addProperty("max", choice(count - 1));
        state.addProperty("step", step);
        state.addProperty("orientation", "horizontal");
        state.addProperty("readout", true);
        state.addProperty("readout_format", "d");
        state.addProperty("continuous_update", true);
        state.addProperty("behavior", "drag-tap");
        return state;
    }

    @Override
    String input(int selected) {
        return range(selected);
    }
}
