package cs336.checkpointing;

/**
 * The memory of one block of a model for its backward pass.
 *
 * @param kept bytes of all tensors that the block saves, including its input
 * @param keptByFeedForward bytes of the tensors that the feed-forward layer and its normalization save
 * @param input bytes of the input
 * @param elementwise bytes of the tensors that {@link CheckpointPolicy#elementwise elementwise(0)} recomputes
 * @param elementwiseOfFeedForward the bytes of {@code elementwise} that the feed-forward layer and its normalization
 *     save
 */
public record BlockBytes(
        long kept, long keptByFeedForward, long input, long elementwise, long elementwiseOfFeedForward) {
    /**
     * @throws IllegalArgumentException unless 0 &lt; input ≤ kept − keptByFeedForward and keptByFeedForward ≥ 0, or if
     *     more elementwise results are recomputed than are kept
     */
    public BlockBytes {
        if (input < 1 || keptByFeedForward < 0 || kept - keptByFeedForward < input) {
            throw new IllegalArgumentException("input " + input + " must be at least 1, keptByFeedForward "
                    + keptByFeedForward + " at least 0, and kept " + kept + " at least their sum");
        }
        long elementwiseOfAttention = elementwise - elementwiseOfFeedForward;
        if (elementwiseOfFeedForward < 0
                || elementwiseOfFeedForward > keptByFeedForward
                || elementwiseOfAttention < 0
                || elementwiseOfAttention > kept - keptByFeedForward - input) {
            throw new IllegalArgumentException("elementwise " + elementwise + ", of which " + elementwiseOfFeedForward
                    + " in the feed-forward layer, must be parts of kept " + kept + " and keptByFeedForward "
                    + keptByFeedForward);
        }
    }

    /** Returns the memory of a block that recomputes the results of elementwise functions and normalizations. */
    public BlockBytes withoutElementwise() {
        return new BlockBytes(kept - elementwise, keptByFeedForward - elementwiseOfFeedForward, input, 0, 0);
    }
}
