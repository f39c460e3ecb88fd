package cs336.notebook.widgets;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import cs336.charts.Svg;
import io.github.spencerpark.jupyter.kernel.display.Renderer;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * A control with a label that selects one of its values.
 *
 * @param <T> the type of the values
 */
public abstract class Control<T> extends Widget {
    private final String label;
    private final List<ChangeListener<? super T>> listeners = new CopyOnWriteArrayList<>();
    private final FixedModel layout = FixedModel.layout(Map.of("width", "32em", "max_width", "100%"));
    private final String styleModel;
    private FixedModel style;
    private String labelWidth = "auto";
    private volatile int index;

    Control(String label, String styleModel) {
        if (label == null || label.isBlank()) {
            throw new IllegalArgumentException("label must not be empty");
        }
        this.label = label;
        this.styleModel = styleModel;
        // Labels are cut off at 80 pixels by default.
        style = FixedModel.style(styleModel, Map.of("description_width", "initial"));
    }

    /** Returns the number of values. */
    abstract int count();

    /** Returns the value at a position, at least 0 and below {@link #count}. */
    abstract T choice(int index);

    /** Returns the position of a value; -1 if it is none of the values. */
    abstract int indexOf(T value);

    /** Returns the value at a position as text. */
    abstract String show(int index);

    /** Returns the entry of the state that holds the value. */
    abstract String key();

    /** Returns that entry for the value at a position. */
    abstract JsonPrimitive wire(int index);

    /**
     * Returns the position of the value that the browser sent.
     *
     * @throws IllegalArgumentException if it is not of the right type or out of range
     */
    abstract int received(JsonElement sent);

    /** Returns the state without layout, style, label and value. */
    abstract JsonObject ownState();

    /** Returns the HTML input, which selects nothing without a script. */
    abstract String input(int selected);

    /** Sets the width of the label in characters, so that the inputs of several controls are aligned. */
    final void alignLabel(int characters) {
        labelWidth = characters + 1 + "ch";
        style = FixedModel.style(styleModel, Map.of("description_width", labelWidth));
    }

    /** Returns whether the label has the width of those of other controls. */
    final boolean isAligned() {
        return !labelWidth.equals("auto");
    }

    /** Returns the label. */
    public final String label() {
        return label;
    }

    /** Returns the selected value. */
    public final T value() {
        return choice(index);
    }

    /**
     * Selects a value, shows it in the notebook, and calls the listeners if it is another one.
     *
     * @throws IllegalArgumentException if it is none of the values of this control
     * @throws Exception if a listener does
     */
    public final void value(T value) throws Exception {
        int to = position(value);
        if (to != index) {
            select(to);
            send(key(), wire(to));
            fire();
        }
    }

    /**
     * Selects the first value that is shown.
     *
     * @return this control
     * @throws IllegalArgumentException if it is none of the values of this control
     */
    public Control<T> at(T value) {
        index = position(value);
        return this;
    }

    private int position(T value) {
        int to = value == null ? -1 : indexOf(value);
        if (to < 0) {
            throw new IllegalArgumentException(
                    "the control \"" + label + "\" has no value " + value + ", but " + values());
        }
        return to;
    }

    private String values() {
        String first = show(0);
        return count() == 1 ? first : first + (count() == 2 ? ", " : ", …, ") + show(count() - 1);
    }

    /**
     * Calls a listener after each change, on the thread that runs cells. Its output appears below the cell that ran
     * last, or in an {@link OutputArea} if it calls {@link OutputArea#show}.
     *
     * @return this control
     */
    public final Control<T> onChange(ChangeListener<? super T> listener) {
        listeners.add(listener);
        return this;
    }

    final void removeListener(ChangeListener<? super T> listener) {
        listeners.remove(listener);
    }

    final boolean hasListeners() {
        return !listeners.isEmpty();
    }

    final int index() {
        return index;
    }

    /** Selects a position without any further effect. */
    final void select(int to) {
        index = to;
    }

    private void fire() throws Exception {
        for (ChangeListener<? super T> listener : listeners) {
            listener.changed(value());
        }
    }

    @Override
    final void update(JsonObject changed) {
        JsonElement sent = changed.get(key());
        if (sent == null) {
            return;
        }
        int to;
        try {
            to = received(sent);
        } catch (IllegalArgumentException e) {
            send(key(), wire(index));
            throw new IllegalArgumentException(label + ": " + e.getMessage(), e);
        }
        // Other pages of the same notebook follow, and this one stops ignoring what they change.
        var echo = new JsonObject();
        echo.add(key(), sent);
        send("echo_update", echo);
        if (!wire(to).equals(sent)) {
            send(key(), wire(to));
        }
        if (to != index) {
            select(to);
            comms().host().run(() -> {
                fire();
                return null;
            });
        }
    }

    @Override
    public void close() {
        super.close();
        parts().forEach(Widget::close);
    }

    @Override
    final List<Widget> parts() {
        return List.of(layout, style);
    }

    @Override
    final JsonObject state() {
        JsonObject state = ownState();
        state.addProperty("description", label);
        state.addProperty("description_allow_html", false);
        state.addProperty("disabled", false);
        state.addProperty("layout", reference(layout));
        state.addProperty("style", reference(style));
        state.add(key(), wire(index));
        return state;
    }

    @Override
    final String text() {
        return label + " = " + show(index);
    }

    @Override
    final String html(Renderer renderer) {
        return "<fieldset disabled style=\"border: 0; margin: 0; padding: 0\">" + labelled(index) + "</fieldset>\n";
    }

    /** Returns an HTML label that contains the input. */
    final String labelled(int selected) {
        return "<label style=\"display: block; margin: 0.3em 0\"><span style=\"display: inline-block; min-width: "
                + labelWidth + "\">" + Svg.escape(label) + "</span> " + input(selected) + "</label>";
    }

    /** Returns an HTML slider over all values, with the selected value as text. */
    final String range(int selected) {
        var labels = new StringBuilder();
        for (int i = 0; i < Math.min(count(), Interaction.MOST_COMBINATIONS); i++) {
            labels.append(i == 0 ? "" : "|").append(show(i).replace("|", "/"));
        }
        String text = Svg.escape(show(selected));
        return "<input type=\"range\" min=\"0\" max=\"" + (count() - 1) + "\" value=\"" + selected
                + "\" aria-valuetext=\"" + text + "\" data-labels=\"" + Svg.escape(labels.toString())
                + "\" style=\"vertical-align: middle\"> <output>" + text + "</output>";
    }

    static double number(JsonElement sent) {
        if (sent instanceof JsonPrimitive primitive && primitive.isNumber()) {
            double value = primitive.getAsDouble();
            if (Double.isFinite(value)) {
                return value;
            }
        }
        throw new IllegalArgumentException("the value must be a number, not " + sent);
    }
}
