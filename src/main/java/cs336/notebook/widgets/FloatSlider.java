package cs336.notebook.widgets;

import java.math.BigDecimal;

/** A slider over evenly spaced numbers. */
public final class FloatSlider extends NumberSlider<Double> {
    /** Tolerance for rounding errors, in steps. */
    private static final double ROUNDING = 1e-9;

    private static final double MOST_STEPS = 1e6;

    private final double min;
    private final double step;
    private final int count;
    private final int decimals;

    /**
     * Creates a slider at its smallest value.
     *
     * @param max the largest value, unless it is not a whole number of steps above {@code min}
     * @param step the difference of neighbouring values
     * @throws IllegalArgumentException if the step is not above 0, or there are not 1 to 1,000,000 steps
     */
    public FloatSlider(String label, double min, double max, double step) {
        super(label, "FloatSlider");
        double steps = (max - min) / step + ROUNDING;
        if (!(step > 0 && steps >= 1 && steps < MOST_STEPS + 1)) {
            throw new IllegalArgumentException("the slider \"" + label
                    + "\" needs step > 0 and 1 to 1,000,000 steps, not min " + min + ", max " + max + ", step " + step);
        }
        this.min = min;
        this.step = step;
        count = (int) steps + 1;
        decimals = Math.max(0, Math.max(decimals(min), decimals(step)));
    }

    private static int decimals(double value) {
        return BigDecimal.valueOf(value).stripTrailingZeros().scale();
    }

    @Override
    public FloatSlider at(Double value) {
        super.at(value);
        return this;
    }

    @Override
    int count() {
        return count;
    }

    @Override
    Double choice(int index) {
        return decimal(index).doubleValue();
    }

    /** Returns the value at a position, in decimal arithmetic: three steps of 0.1 are 0.3. */
    private BigDecimal decimal(int index) {
        return BigDecimal.valueOf(min).add(BigDecimal.valueOf(step).multiply(BigDecimal.valueOf(index)));
    }

    @Override
    int indexOf(Double value) {
        long nearest = Math.round((value - min) / step);
        boolean exists = nearest >= 0 && nearest < count && Math.abs(choice((int) nearest) - value) < step * ROUNDING;
        return exists ? (int) nearest : -1;
    }

    @Override
    String show(int index) {
        return decimal(index).stripTrailingZeros().toPlainString();
    }

    @Override
    Double step() {
        return step;
    }

    @Override
    String readoutFormat() {
        return "." + decimals + "f";
    }
}
