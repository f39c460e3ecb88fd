package cs336.units;

/** Conversion factors between units, for static import by code that calculates with plain numbers. */
public final class UnitFactors {
    /** Bytes in a kilobyte. */
    public static final double KB = 1e3;

    /** Bytes in a megabyte. */
    public static final double MB = 1e6;

    /** Bytes in a gigabyte. */
    public static final double GB = 1e9;

    /** Bytes in a mebibyte. */
    public static final double MIB = 1 << 20;

    /** Bytes in a gibibyte. */
    public static final double GIB = 1 << 30;

    /** The SI prefix T, as in TFLOP. */
    public static final double TERA = 1e12;

    /** Nanoseconds in a microsecond. */
    public static final double NANOS_PER_US = 1e3;

    /** Nanoseconds in a millisecond. */
    public static final double NANOS_PER_MS = 1e6;

    /** Seconds in a millisecond. */
    public static final double SECONDS_PER_MS = 1e-3;

    private UnitFactors() {}
}
