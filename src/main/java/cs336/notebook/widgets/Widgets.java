package cs336.notebook.widgets;

import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;

/**
 * Functions that cells call to vary parameters: controls, and {@code interact}, which shows a result next to them.
 *
 * <pre>{@code
 * interact(slider("tile", 16, 128, 16).at(64), checkbox("causal"), (tile, causal) -> figure(tile, causal))
 * }</pre>
 */
public final class Widgets {
    private Widgets() {}

    /** Returns a slider over the whole numbers from {@code min} to {@code max} in steps of {@code step}. */
    public static IntSlider slider(String label, int min, int max, int step) {
        return new IntSlider(label, min, max, step);
    }

    /** Returns a slider over the numbers from {@code min} to {@code max} in steps of {@code step}. */
    public static FloatSlider slider(String label, double min, double max, double step) {
        return new FloatSlider(label, min, max, step);
    }

    /** Returns a slider over a list of values, such as {@code List.of(1, 2, 4, 8)}. */
    public static <T> OptionSlider<T> slider(String label, List<T> values) {
        return new OptionSlider<>(label, values);
    }

    /** Returns a drop-down list. */
    @SafeVarargs
    @SuppressWarnings("varargs") // the array is only read
    public static <T> Dropdown<T> dropdown(String label, T... values) {
        Objects.requireNonNull(values, "values must not be null");
        return new Dropdown<>(label, Arrays.stream(values).toList());
    }

    /** Returns a drop-down list. */
    public static <T> Dropdown<T> dropdown(String label, List<T> values) {
        return new Dropdown<>(label, values);
    }

    /** Returns a checkbox that is not checked. */
    public static Checkbox checkbox(String label) {
        return new Checkbox(label);
    }

    /**
     * Shows a control and a result, which is computed again after each change. It is also computed for the other values
     * when the cell runs, see {@link Interaction}.
     *
     * @param result returns the value to show; what it prints is shown above
     * @throws Exception if the result for the first value cannot be computed
     */
    public static <A> Interaction interact(Control<A> a, Interaction.Of1<A> result) throws Exception {
        return new Interaction(Arrays.asList(a), () -> result.apply(a.value()));
    }

    /** Shows two controls and a result, see {@link #interact(Control, Interaction.Of1)}. */
    public static <A, B> Interaction interact(Control<A> a, Control<B> b, Interaction.Of2<A, B> result)
            throws Exception {
        return new Interaction(Arrays.asList(a, b), () -> result.apply(a.value(), b.value()));
    }

    /** Shows three controls and a result, see {@link #interact(Control, Interaction.Of1)}. */
    public static <A, B, C> Interaction interact(
            Control<A> a, Control<B> b, Control<C> c, Interaction.Of3<A, B, C> result) throws Exception {
        return new Interaction(Arrays.asList(a, b, c), () -> result.apply(a.value(), b.value(), c.value()));
    }

    /** Shows four controls and a result, see {@link #interact(Control, Interaction.Of1)}. */
    public static <A, B, C, D> Interaction interact(
            Control<A> a, Control<B> b, Control<C> c, Control<D> d, Interaction.Of4<A, B, C, D> result)
            throws Exception {
        return new Interaction(
                Arrays.asList(a, b, c, d), () -> result.apply(a.value(), b.value(), c.value(), d.value()));
    }

    /**
     * Shows any number of controls and a result.
     *
     * @param result returns the value to show from the controls' {@link Control#value}
     * @throws IllegalArgumentException if there are no controls, or one is null or appears twice
     * @throws Exception if the result for the first values cannot be computed
     */
    public static Interaction interact(List<? extends Control<?>> controls, Callable<?> result) throws Exception {
        return new Interaction(controls, result);
    }
}
