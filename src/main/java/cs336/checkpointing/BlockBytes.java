package cs336.checkpointing;

/**
 * The memory of one block of a model for its backward pass.
 *
 * @param kept bytes of all tensors that the block saves, including its input
 * @param keptByFeedForward bytes of those that the feed-forward layer and its normalization save
 * @param input bytes of the input
 */
public record BlockBytes(long kept, long keptByFeedForward, long input) {
    /** @throws IllegalArgumentException unless 0 &lt; input ≤ kept − keptByFeedForward and keptByFeedForward ≥ 0 */
    public BlockBytes {
        if (input < 1 || keptByFeedForward < 0 || kept - keptByFeedForward < input) {
            throw new IllegalArgumentException("input " + input + " must be at least 1, keptByFeedForward "
                    + keptByFeedForward + " at least 0, and kept " + kept + " at least their sum");
        }
    }
}
