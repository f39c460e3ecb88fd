package cs336.notebook.widgets;

/**
 * A listener of a control.
 *
 * @param <T> the type of the control's value
 */
@FunctionalInterface
public interface ChangeListener<T> {
    /** Handles a new value, on the thread that runs cells. */
    void changed(T value) throws Exception;
}
