package cs336.notebook.widgets;

import io.github.spencerpark.jupyter.kernel.display.Renderer;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;

/**
 * Controls and a result that is computed from their values.
 *
 * <p>The results of all combinations of values are computed in advance if there are at most {@value #MOST_COMBINATIONS}
 * combinations. This stops after 3 s of CPU time or 30 s of wall time. A page without a kernel shows these results if
 * they are complete.
 */
public final class Interaction implements AutoCloseable {
    /** The largest number of combinations that are computed in advance. */
    static final int MOST_COMBINATIONS = 64;

    /** Limit of the CPU time of all combinations. It hardly depends on the load of the machine, unlike wall time. */
    private static final long MOST_CPU_NANOS = 3_000_000_000L;

    private static final long MOST_WALL_NANOS = 30_000_000_000L;

    private final List<Control<?>> controls;
    private final Callable<?> result;
    private final List<Integer> first;
    private final Map<List<Integer>, CapturedOutput> computed = new LinkedHashMap<>();
    private final boolean complete;
    private final OutputArea area = new OutputArea();
    private final VBox box;
    private final List<Control<?>> opened = new ArrayList<>();
    private ChangeListener<Object> listener;
    private boolean computing;

    /**
     * A function of a control's value.
     *
     * @param <A> the type of the value
     */
    @FunctionalInterface
    public interface Of1<A> {
        /** Returns the result; null if there is nothing to show but what is printed. */
        Object apply(A a) throws Exception;
    }

    /**
     * A function of two controls' values.
     *
     * @param <A> the type of the first value
     * @param <B> the type of the second value
     */
    @FunctionalInterface
    public interface Of2<A, B> {
        /** Returns the result; null if there is nothing to show but what is printed. */
        Object apply(A a, B b) throws Exception;
    }

    /**
     * A function of three controls' values.
     *
     * @param <A> the type of the first value
     * @param <B> the type of the second value
     * @param <C> the type of the third value
     */
    @FunctionalInterface
    public interface Of3<A, B, C> {
        /** Returns the result; null if there is nothing to show but what is printed. */
        Object apply(A a, B b, C c) throws Exception;
    }

    /**
     * A function of four controls' values.
     *
     * @param <A> the type of the first value
     * @param <B> the type of the second value
     * @param <C> the type of the third value
     * @param <D> the type of the fourth value
     */
    @FunctionalInterface
    public interface Of4<A, B, C, D> {
        /** Returns the result; null if there is nothing to show but what is printed. */
        Object apply(A a, B b, C c, D d) throws Exception;
    }

    /**
     * Computes the result for the selected values, and in advance for the others.
     *
     * @param result computes the result from the values of the controls
     * @throws IllegalArgumentException if there are no controls, or if one appears twice
     * @throws Exception if the result for the selected values cannot be computed
     */
    Interaction(List<? extends Control<?>> controls, Callable<?> result) throws Exception {
        Objects.requireNonNull(controls, "controls must not be null");
        Objects.requireNonNull(result, "result must not be null");
        if (controls.stream().anyMatch(Objects::isNull)) {
            throw new IllegalArgumentException("a control of interact is null");
        }
        if (controls.isEmpty() || new HashSet<>(controls).size() < controls.size()) {
            throw new IllegalArgumentException("interact needs at least one control, and each only once");
        }
        this.controls = List.copyOf(controls);
        int longest = controls.stream()
                .mapToInt(control -> control.label().length())
                .max()
                .orElseThrow();
        controls.forEach(control -> control.alignLabel(longest));
        this.result = result;
        first = selected();
        CapturedOutput output = CapturedOutput.of(result);
        if (output.error() instanceof Error error) {
            throw error;
        }
        if (output.error() instanceof Exception exception) {
            throw exception;
        }
        computed.put(first, output);
        complete = combinations() <= MOST_COMBINATIONS && computeAll();
        List<Widget> children = new ArrayList<>(controls);
        children.add(area);
        box = new VBox(children);
    }

    private List<Integer> selected() {
        return controls.stream().map(Control::index).toList();
    }

    private void select(List<Integer> combination) {
        for (int i = 0; i < controls.size(); i++) {
            controls.get(i).select(combination.get(i));
        }
    }

    private long combinations() {
        long product = 1;
        for (Control<?> control : controls) {
            product = Math.min(Integer.MAX_VALUE, product * control.count());
        }
        return product;
    }

    /** Computes the results of all combinations. Returns false if the time was too short. */
    private boolean computeAll() {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        long cpu = threads.getCurrentThreadCpuTime();
        long wall = System.nanoTime();
        try {
            for (List<Integer> combination : allCombinations()) {
                if (computed.containsKey(combination)) {
                    continue;
                }
                if (threads.getCurrentThreadCpuTime() - cpu > MOST_CPU_NANOS
                        || System.nanoTime() - wall > MOST_WALL_NANOS) {
                    return false;
                }
                select(combination);
                computed.put(combination, CapturedOutput.of(result));
            }
            return true;
        } finally {
            select(first);
        }
    }

    /** Returns the positions of the controls' values, in the order in which the last control changes fastest. */
    List<List<Integer>> allCombinations() {
        List<List<Integer>> all = List.of(List.of());
        for (Control<?> control : controls) {
            List<List<Integer>> longer = new ArrayList<>();
            for (List<Integer> combination : all) {
                for (int i = 0; i < control.count(); i++) {
                    List<Integer> next = new ArrayList<>(combination);
                    next.add(i);
                    longer.add(List.copyOf(next));
                }
            }
            all = longer;
        }
        return all;
    }

    List<Control<?>> controls() {
        return controls;
    }

    /** Returns the positions of the values that were selected at the beginning. */
    List<Integer> first() {
        return first;
    }

    /** Returns whether the results of all combinations are known. */
    boolean isComplete() {
        return complete;
    }

    /** Returns a result that is known. */
    CapturedOutput computed(List<Integer> combination) {
        return computed.get(combination);
    }

    /** Shows the controls and the result, and recomputes it after each change. Returns the widget to view. */
    Widget open(WidgetComms comms) {
        if (!comms.isOpen(box)) {
            controls.stream().filter(control -> !comms.isOpen(control)).forEach(opened::add);
            comms.open(box);
            comms.remember(this);
            listener = value -> redraw();
            controls.forEach(control -> control.onChange(listener));
            CapturedOutput known = computed.get(selected());
            area.show(known == null ? CapturedOutput.of(result) : known);
        }
        return box;
    }

    private void redraw() {
        // The function itself may select values.
        if (!computing) {
            computing = true;
            try {
                area.show(result);
            } finally {
                computing = false;
            }
        }
    }

    /** Removes the controls and the result from the notebook, except controls that other listeners use. */
    @Override
    public void close() {
        if (listener != null) {
            controls.forEach(control -> control.removeListener(listener));
        }
        box.close();
        area.close();
        opened.stream().filter(control -> !control.hasListeners()).forEach(Control::close);
        opened.clear();
    }

    /** Returns the values that were selected at the beginning, and their result. */
    String text(Renderer renderer) {
        return values() + "\n" + computed.get(first).text(renderer);
    }

    /** Returns the values that were selected at the beginning, such as {@code tile = 16, causal = false}. */
    String values() {
        var text = new StringBuilder();
        for (int i = 0; i < controls.size(); i++) {
            Control<?> control = controls.get(i);
            text.append(i == 0 ? "" : ", ").append(control.label()).append(" = ");
            text.append(control.show(first.get(i)));
        }
        return text.toString();
    }
}
