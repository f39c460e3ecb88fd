package cs336.notebook;

import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import java.util.UUID;

/**
 * What every cell can call without importing anything; the same names and meanings as in IJava.
 *
 * <p>MIME types are strings such as {@code "text/html"}, {@code "text/markdown"}, {@code "image/svg+xml"}.
 */
public final class Display {
    private Display() {}

    /**
     * The kernel that runs the calling cell.
     *
     * @throws IllegalStateException outside a notebook
     */
    public static JavaKernel getKernelInstance() {
        return JavaKernel.current();
    }

    /** What {@code value} looks like, in the forms it prefers. A cell whose last expression is this shows it. */
    public static DisplayData render(Object value) {
        return value == null
                ? new DisplayData("null")
                : getKernelInstance().getRenderer().render(value);
    }

    /** What {@code value} looks like as each of {@code mimeTypes}; one that it does not support is left out. */
    public static DisplayData render(Object value, String... mimeTypes) {
        return value == null
                ? new DisplayData("null")
                : getKernelInstance().getRenderer().renderAs(value, mimeTypes);
    }

    /**
     * Shows {@code value} below the cell, now.
     *
     * @return an id to {@link #updateDisplay} it with
     */
    public static String display(Object value) {
        return show(value instanceof DisplayData data ? data : render(value));
    }

    /**
     * Shows {@code value} below the cell, now, as each of {@code mimeTypes}.
     *
     * @return an id to {@link #updateDisplay} it with
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

    /** Replaces what was displayed under {@code id} by {@code value}. */
    public static void updateDisplay(String id, Object value) {
        getKernelInstance().updateDisplay(id, value instanceof DisplayData data ? data : render(value));
    }

    /** Replaces what was displayed under {@code id} by {@code value} as each of {@code mimeTypes}. */
    public static void updateDisplay(String id, Object value, String... mimeTypes) {
        getKernelInstance().updateDisplay(id, render(value, mimeTypes));
    }
}
