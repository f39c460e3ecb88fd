package cs336.bench;

/** The counts of attacks that {@code test/attacks} adds up, from the output of tests. */
public final class AttackCount {
    private static final int FACTOR = Integer.getInteger("cs336.attacks", 1);

    private AttackCount() {}

    /** Returns the number of random inputs to try: that of the test suite, times the property {@code cs336.attacks}. */
    public static int times(int inSuite) {
        return Math.multiplyExact(inSuite, FACTOR);
    }

    /** Prints that so many wrong inputs led to no crash, and to no error but the expected ones. */
    public static void inputs(long survived, String what) {
        System.out.printf("survived %d inputs: %s%n", survived, what);
    }

    /** Prints that so many faults were injected without a lost result. */
    public static void faults(long survived, String what) {
        System.out.printf("survived %d faults: %s%n", survived, what);
    }
}
