package cs336.notebook.widgets;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import io.github.spencerpark.jupyter.kernel.display.Renderer;
import java.util.List;
import java.util.Objects;
import java.util.stream.Collectors;

/** A row or a column of widgets. */
abstract sealed class Container extends Widget permits HBox, VBox {
    private final List<Widget> children;

    Container(List<? extends Widget> children) {
        this.children = List.copyOf(Objects.requireNonNull(children, "children must not be null"));
    }

    @Override
    final List<Widget> parts() {
        return children;
    }

    final JsonObject state(String name) {
        JsonObject state = visible(CONTROLS, VERSION, name);
        var references = new JsonArray();
        children.forEach(child -> references.add(reference(child)));
        state.add("children", references);
        state.addProperty("box_style", "");
        return state;
    }

    @Override
    final String text() {
        return children.stream().map(Widget::text).collect(Collectors.joining("\n"));
    }

    final String html(Renderer renderer, String style) {
        return children.stream()
                .map(child -> child.html(renderer))
                .collect(Collectors.joining("", "<div" + style + ">\n", "</div>\n"));
    }
}
