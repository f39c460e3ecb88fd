package cs336.planner;

import cs336.scaling.TwoParameterFit;
import cs336.units.Seconds;
import java.util.List;

/**
 * A time that grows linearly with two amounts of work, such as FLOP and bytes.
 *
 * @param perFirst milliseconds for each unit of the first amount
 * @param perSecond milliseconds for each unit of the second amount
 */
record LinearCost(double perFirst, double perSecond) {
    /**
     * A measured time.
     *
     * @param first the first amount of work
     * @param second the second amount of work
     * @param ms the time in ms
     */
    record MeasuredWork(double first, double second, double ms) {}

    /**
     * Fits both coefficients by least squares of relative errors. If the times do not determine both, or if one would
     * be negative, only the first is fitted, and the second is 0.
     *
     * @param measured the measured times, at least one
     */
    static LinearCost fit(List<MeasuredWork> measured) {
        var fit = new TwoParameterFit();
        measured.forEach(m -> fit.add(m.first / m.ms, m.second / m.ms, 1));
        if (fit.isDetermined() && fit.first() >= 0 && fit.second() >= 0) {
            return new LinearCost(fit.first(), fit.second());
        }
        double sum = 0;
        double squares = 0;
        for (MeasuredWork m : measured) {
            sum += m.first / m.ms;
            squares += m.first / m.ms * (m.first / m.ms);
        }
        return new LinearCost(sum / squares, 0);
    }

    /** Returns the time of both amounts of work together. */
    Seconds time(double first, double second) {
        return Seconds.ms(perFirst * first + perSecond * second);
    }
}
