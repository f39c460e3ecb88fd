package cs336.numbers;

/**
 * A number with its unit, from a measurement or computed from several.
 *
 * @param value in that unit
 */
public record Quantity(double value, Unit unit) {

    /** A pure number. */
    public static Quantity of(double value) {
        return new Quantity(value, Unit.NONE);
    }

    /** A number with a unit as it is written in measurements, such as {@code ms} or {@code GB/s}. */
    public static Quantity of(double value, String unit) {
        return new Quantity(value, Unit.parse(unit));
    }

    /**
     * The same quantity in another unit.
     *
     * @throws IllegalArgumentException where the units measure different things
     */
    public Quantity in(Unit other) {
        if (!unit.convertibleTo(other)) {
            throw new IllegalArgumentException("cannot be given in " + other + ": it is in " + unit);
        }
        return new Quantity(unit.factor() == other.factor() ? value : value * (unit.factor() / other.factor()), other);
    }

    Quantity plus(Quantity other) {
        return new Quantity(value + other.in(unit).value, unit);
    }

    Quantity minus(Quantity other) {
        return new Quantity(value - other.in(unit).value, unit);
    }

    Quantity times(Quantity other) {
        return new Quantity(value * other.value, unit.times(other.unit));
    }

    Quantity dividedBy(Quantity other) {
        if (other.value == 0) {
            throw new IllegalArgumentException("division by zero");
        }
        if (unit.convertibleTo(other.unit)) {
            return of(value / other.in(unit).value);
        }
        return new Quantity(value / other.value, unit.per(other.unit));
    }
}
