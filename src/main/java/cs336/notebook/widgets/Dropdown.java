package cs336.notebook.widgets;

import com.google.gson.JsonObject;
import cs336.charts.Svg;
import java.util.List;

/**
 * A drop-down list.
 *
 * @param <T> the type of the values
 */
public final class Dropdown<T> extends OptionControl<T> {
    /**
     * Creates a list with the first value selected.
     *
     * @throws IllegalArgumentException if there are no values
     */
    public Dropdown(String label, List<? extends T> options) {
        super(label, "DescriptionStyleModel", options);
    }

    @Override
    public Dropdown<T> at(T value) {
        super.at(value);
        return this;
    }

    @Override
    JsonObject ownState() {
        return options("Dropdown");
    }

    @Override
    String input(int selected) {
        var html = new StringBuilder("<select>");
        for (int i = 0; i < count(); i++) {
            html.append(i == selected ? "<option selected>" : "<option>")
                    .append(Svg.escape(show(i)))
                    .append("</option>");
        }
        return html.append("</select>").toString();
    }
}
