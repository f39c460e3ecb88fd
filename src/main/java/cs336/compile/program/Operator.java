package cs336.compile.program;

/** A function that operations of a program compute. Its text is its name in printed programs. */
public sealed interface Operator permits DispatchedOperator, TensorOperator {
    /** Returns whether equal arguments may give different results, because the operator draws random numbers. */
    default boolean isRandom() {
        return false;
    }
}
