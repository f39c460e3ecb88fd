package cs336.numbers;

/**
 * A number with its unit, measured or computed.
 *
 * @param value number in the given unit
 * @param unit unit of the number
 */
public record Quantity(double value, Unit unit) {

    /** Returns a pure number. */
    public static Quantity of(double value) {
        return new Quantity(value, Unit.NONE);
    }

    /** Returns a number with a unit as written in measurements, such as {@code ms} or {@code GB/s}. */
    public static Quantity of(double value, String unit) {
        return new Quantity(value, Unit.parse(unit));
    }

    /**
     * Converts this quantity to another unit.
     *
     * @throws IllegalArgumentException if the units have different dimensions
     */
    public Quantity in(Unit other) {
        if (!unit.convertibleTo(other)) {
            throw new IllegalArgumentException("cannot convert " + unit + " to " + other);
        }
        return new Quantity(unit.factor() == other.factor() ? value : value * (unit.factor() / other.factor()), other);
    }

    /** Returns the sum in this quantity's unit. */
    Quantity plus(Quantity other) {
        return new Quantity(value + other.in(unit).value, unit);
    }

    /** Returns the difference in this quantity's unit. */
    Quantity minus(Quantity other) {
        return new Quantity(value - other.in(unit).value, unit);
    }

    /** Returns this quantity without its sign. */
    Quantity absolute() {
        return new Quantity(Math.abs(value), unit);
    }

    /** Returns the product of numbers and units. */
    Quantity times(Quantity other) {
        return new Quantity(value * other.value, unit.times(other.unit));
    }

    /** Returns the quotient, a pure number if both units have the same dimensions. */
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
