package cs336.compile;

import java.util.List;

/** A receiver of the gradients that the passes have written to {@code grad()}. */
interface GradientConsumer {
    /**
     * Accepts gradients that are complete, on the stream that computes them.
     *
     * @param parameters indices of their parameters
     */
    void ready(List<Integer> parameters);

    /** Ends the passes, after all gradients were accepted. */
    default void finish() {}
}
