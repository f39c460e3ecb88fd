package cs336.checkpointing;

/**
 * The activations that other blocks keep while one block runs its backward pass, when all tensors that this block saves
 * are in memory.
 *
 * @param block the index of the block; −1 at the end of the forward pass of the model
 * @param blocks the number of other blocks that keep everything
 * @param blocksWithoutFeedForward the number of other blocks that keep everything but the feed-forward layer
 * @param inputs the number of checkpoints: inputs of recomputed blocks
 */
public record LiveActivations(int block, int blocks, int blocksWithoutFeedForward, int inputs) {
    static final LiveActivations NONE = new LiveActivations(-1, 0, 0, 0);

    /** Returns the size of the activations, including all those of the block itself. */
    public long bytes(BlockBytes size) {
        int complete = block < 0 ? blocks : blocks + 1;
        return complete * size.kept()
                + blocksWithoutFeedForward * (size.kept() - size.keptByFeedForward())
                + inputs * size.input();
    }

    LiveActivations and(CheckpointPlan.PlanPart part) {
        if (part instanceof CheckpointPlan.RecomputedBlocks) {
            return new LiveActivations(block, blocks, blocksWithoutFeedForward, inputs + 1);
        }
        return ((CheckpointPlan.KeptBlock) part).recomputesFeedForward()
                ? new LiveActivations(block, blocks, blocksWithoutFeedForward + 1, inputs)
                : new LiveActivations(block, blocks + 1, blocksWithoutFeedForward, inputs);
    }

    LiveActivations during(int index) {
        return new LiveActivations(index, blocks, blocksWithoutFeedForward, inputs);
    }
}
