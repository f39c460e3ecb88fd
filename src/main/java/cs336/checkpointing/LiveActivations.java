package cs336.checkpointing;

/**
 * The activations in memory during the backward pass of one block, or at the end of the forward pass. All tensors that
 * the block saves are in memory, too. The numbers of blocks and inputs exclude this block; {@link #bytes} includes it.
 *
 * @param plan the plan of the chain
 * @param block the index of the block in its backward pass; −1 at the end of the forward pass of the model
 * @param blocks the number of other blocks that keep everything
 * @param blocksWithoutFeedForward the number of other blocks that keep everything but the feed-forward layer
 * @param inputs the number of checkpoints: inputs of recomputed blocks
 * @param depth the number of recomputations in progress; 0 if the block is not recomputed
 * @param laterInRecomputation the number of these recomputations that also ran later blocks, whose backward passes have
 *     ended
 */
public record LiveActivations(
        CheckpointPlan plan,
        int block,
        int blocks,
        int blocksWithoutFeedForward,
        int inputs,
        int depth,
        int laterInRecomputation) {
    static LiveActivations none(CheckpointPlan plan) {
        return new LiveActivations(plan, -1, 0, 0, 0, 0, 0);
    }

    /** Returns the size of the activations, including all those of the block itself, in bytes. */
    public long bytes(BlockBytes size) {
        int complete = block < 0 ? blocks : blocks + 1;
        return complete * size.kept()
                + inTransfer() * size.keptByFeedForward()
                + blocksWithoutFeedForward * (size.kept() - size.keptByFeedForward())
                + inputs * size.input();
    }

    /**
     * Returns the number of offloaded blocks, 0 or 1, whose activations are being copied back to the device. Only the
     * block that comes next in the backward pass can be one.
     */
    public int inTransfer() {
        int next = block < 0 ? plan.parts().size() - 1 : block - 1;
        return plan.offloadsFeedForward(next) ? 1 : 0;
    }

    LiveActivations and(CheckpointPlan.PlanPart part) {
        if (part instanceof CheckpointPlan.RecomputedBlocks) {
            return new LiveActivations(
                    plan, block, blocks, blocksWithoutFeedForward, inputs + 1, depth, laterInRecomputation);
        }
        return ((CheckpointPlan.KeptBlock) part).feedForward() == CheckpointPlan.FeedForwardActivations.KEPT
                ? new LiveActivations(
                        plan, block, blocks + 1, blocksWithoutFeedForward, inputs, depth, laterInRecomputation)
                : new LiveActivations(
                        plan, block, blocks, blocksWithoutFeedForward + 1, inputs, depth, laterInRecomputation);
    }

    LiveActivations during(int index) {
        return new LiveActivations(plan, index, blocks, blocksWithoutFeedForward, inputs, depth, laterInRecomputation);
    }

    /** Returns these activations inside one more recomputation. */
    LiveActivations recomputing() {
        return new LiveActivations(
                plan, block, blocks, blocksWithoutFeedForward, inputs, depth + 1, laterInRecomputation);
    }

    /** Returns these activations with this number of recomputations that contain later blocks. */
    LiveActivations withLater(int recomputations) {
        return new LiveActivations(plan, block, blocks, blocksWithoutFeedForward, inputs, depth, recomputations);
    }
}
