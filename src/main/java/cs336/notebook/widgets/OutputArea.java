package cs336.notebook.widgets;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import io.github.spencerpark.jupyter.kernel.display.Renderer;
import java.util.concurrent.Callable;

/** An area that shows what a task printed and returned, with the renderers of cells. */
public final class OutputArea extends Widget {
    private static final String MODULE = "@jupyter-widgets/output";
    private static final String MODULE_VERSION = "1.0.0";

    private volatile CapturedOutput output = CapturedOutput.NOTHING;

    /**
     * Runs a task and replaces what the area shows: first what the task printed, then the value that it returned, or
     * the exception that it threw.
     *
     * @param task returns null if there is no value to show
     */
    public void show(Callable<?> task) {
        show(CapturedOutput.of(task));
    }

    /** Removes everything that the area shows. */
    public void clear() {
        show(CapturedOutput.NOTHING);
    }

    void show(CapturedOutput captured) {
        output = captured;
        WidgetComms shown = comms();
        if (shown != null) {
            send("outputs", outputs(shown));
        }
    }

    private JsonArray outputs(WidgetComms shown) {
        return shown == null ? new JsonArray() : output.outputs(shown.renderer(), shown.host());
    }

    @Override
    JsonObject state() {
        JsonObject state = visible(MODULE, MODULE_VERSION, "Output");
        state.addProperty("msg_id", "");
        state.add("outputs", outputs(comms()));
        return state;
    }

    @Override
    String text() {
        return output.printed() + (output.value() == null ? "" : output.value());
    }

    @Override
    String html(Renderer renderer) {
        return "<div>" + output.html(renderer) + "</div>\n";
    }
}
