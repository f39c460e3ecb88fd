package cs336.notebook;

import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import java.util.UUID;

/**
 * Functions that every cell can call without an import, with the same names and meanings as in IJava.
 *
 * <p>MIME types are strings such as {@code "text/html"}, {@code "text/markdown"}, {@code "image/svg+xml"}.
 */
public final class Display {
    private Display() {}

    /**
     * Returns the kernel that runs the calling cell.
     *
     * @throws IllegalStateException outside a notebook
     */
    public static JavaKernel getKernelInstance() {
        return JavaKernel.current();
    }

    /** Renders {@code value} in its preferred MIME types. */
    public static DisplayData render(Object value) {
        return value == null
                ? new DisplayData("null")
                : getKernelInstance().getRenderer().render(value);
    }

    /** Renders {@code value} in each of {@code mimeTypes} that it supports. */
    public static DisplayData render(Object value, String... mimeTypes) {
        return value == null
                ? new DisplayData("null")
                : getKernelInstance().getRenderer().renderAs(value, mimeTypes);
    }

    /**
     * Shows {@code value} below the cell immediately.
     *
     * @return the id of this output for {@link #updateDisplay}
     */
    public static String display(Object value) {
        return show(value instanceof DisplayData data ? data : render(value));
    }

    /**
     * Shows {@code value} below the cell immediately, in each of {@code mimeTypes}.
     *
     * @return the id of this output for {@link #updateDisplay}
     */
    public static String display(Object value, String... mimeTypes) {
        return show(render(value, mimeTypes));
    }

    private static String show(DisplayData data) {
        if (!data.hasDisplayId()) {
            data.setDisplayId(UUID.randomUUID().toString());
        }
        getKernelInstance().display(data);
        return data.getDisplayId();
    }

    /** Replaces the output with this id by {@code value}. */
    public static void updateDisplay(String id, Object value) {
        getKernelInstance().updateDisplay(id, value instanceof DisplayData data ? data : render(value));
    }

    /** Replaces the output with this id by {@code value}, in each of {@code mimeTypes}. */
    public static void updateDisplay(String id, Object value, String... mimeTypes) {
        getKernelInstance().updateDisplay(id, render(value, mimeTypes));
    }
}
