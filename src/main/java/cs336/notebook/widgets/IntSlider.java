package cs336.notebook.widgets;

/** A slider over whole numbers. */
public final class IntSlider extends NumberSlider<Integer> {
    private final int min;
    private final int step;
    private final int count;

    /**
     * Creates a slider at its smallest value.
     *
     * @param max the largest value, unless it is not a whole number of steps above {@code min}
     * @param step the difference of neighbouring values
     * @throws IllegalArgumentException if the step is not above 0, or there are fewer than two values
     */
    public IntSlider(String label, int min, int max, int step) {
        super(label, "IntSlider");
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
    Integer step() {
        return step;
    }

    @Override
    String readoutFormat() {
        return "d";
    }
}
