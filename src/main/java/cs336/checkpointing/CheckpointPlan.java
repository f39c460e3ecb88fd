package cs336.checkpointing;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;

/**
 * The division of a chain of blocks into blocks that keep their activations and blocks that are recomputed. It is the
 * result of a {@link CheckpointPolicy} for a number of blocks.
 *
 * @param parts the elements of the chain, in the order of the forward pass
 * @param recomputesElementwise whether blocks that keep their activations recompute the results of normalizations and
 *     activation functions, which are inputs of linear layers
 */
public record CheckpointPlan(List<PlanPart> parts, boolean recomputesElementwise) {
    /** An element of a plan: a block that keeps its activations, or blocks that are recomputed together. */
    public sealed interface PlanPart {}

    /** The activations that a block keeps of its feed-forward layer and of that layer's normalization. */
    public enum FeedForwardActivations {
        /** All activations, on the model's device. */
        KEPT,
        /** Only the input of the normalization; the rest is recomputed. */
        RECOMPUTED,
        /**
         * The input of the normalization and, in host memory ({@link HostStore}), the inputs of the activation
         * function; the results of both are recomputed.
         */
        OFFLOADED
    }

    /**
     * A block that keeps its activations.
     *
     * @param index the position in the chain
     * @param feedForward what it keeps of its feed-forward layer
     */
    public record KeptBlock(int index, FeedForwardActivations feedForward) implements PlanPart {
        public KeptBlock {
            Objects.requireNonNull(feedForward, "feedForward must not be null");
        }
    }

    /**
     * Consecutive blocks that keep only the input of the first one and are recomputed together.
     *
     * @param parts the elements that these blocks form in the recomputation, at least one
     */
    public record RecomputedBlocks(List<PlanPart> parts) implements PlanPart {
        public RecomputedBlocks {
            Objects.requireNonNull(parts, "parts must not be null");
            parts = List.copyOf(parts);
            if (keptBlocks(parts, FeedForwardActivations.OFFLOADED).findAny().isPresent()) {
                throw new IllegalArgumentException("blocks that are recomputed together cannot be offloaded");
            }
        }
    }

    /**
     * @throws IllegalArgumentException if elementwise functions are recomputed separately although several blocks are
     *     recomputed together, or if activations are in host memory although elementwise functions are not recomputed
     */
    public CheckpointPlan {
        Objects.requireNonNull(parts, "parts must not be null");
        parts = List.copyOf(parts);
        recomputesElementwise = recomputesElementwise && parts.stream().anyMatch(KeptBlock.class::isInstance);
        if (recomputesElementwise
                && parts.stream().anyMatch(part -> part instanceof RecomputedBlocks r && r.parts.size() > 1)) {
            throw new IllegalArgumentException(
                    "recomputesElementwise must be false if several blocks are recomputed together");
        }
        if (!recomputesElementwise
                && keptBlocks(parts, FeedForwardActivations.OFFLOADED).findAny().isPresent()) {
            throw new IllegalArgumentException("recomputesElementwise must be true if activations are in host memory");
        }
    }

    /** Creates a plan that recomputes whole blocks and feed-forward layers only. */
    public CheckpointPlan(List<PlanPart> parts) {
        this(parts, false);
    }

    /** Returns the activations at the end of the forward pass. */
    public LiveActivations afterForward() {
        LiveActivations live = LiveActivations.none(this);
        for (PlanPart part : parts) {
            live = live.and(part);
        }
        return live;
    }

    /** Returns the activations during the backward pass of each block, from the last block to the first. */
    public List<LiveActivations> backward() {
        var points = new ArrayList<LiveActivations>();
        backward(parts, LiveActivations.none(this), points);
        return points;
    }

    private static void backward(List<PlanPart> parts, LiveActivations outside, List<LiveActivations> points) {
        var before = new ArrayList<LiveActivations>();
        LiveActivations live = outside;
        for (PlanPart part : parts) {
            before.add(live);
            live = live.and(part);
        }
        for (int i = parts.size() - 1; i >= 0; i--) {
            boolean isLast = i == parts.size() - 1;
            LiveActivations others = before.get(i)
                    .withLater(
                            isLast || outside.depth() == 0
                                    ? outside.laterInRecomputation()
                                    : outside.laterInRecomputation() + 1);
            if (parts.get(i) instanceof RecomputedBlocks segment) {
                backward(segment.parts, others.recomputing(), points);
            } else {
                points.add(others.during(((KeptBlock) parts.get(i)).index));
            }
        }
    }

    /** Returns the peak of the activations of all blocks, in bytes. */
    public long peakBytes(BlockBytes size) {
        BlockBytes kept = recomputesElementwise ? size.withoutElementwise() : size;
        long recomputed = size.kept() - kept.kept(); // by the block whose backward pass runs
        return Math.max(
                afterForward().bytes(kept),
                backward().stream().mapToLong(live -> live.bytes(kept)).max().orElse(0) + recomputed);
    }

    /** Returns whether a block recomputes the results of its elementwise functions and normalizations separately. */
    public boolean recomputesElementwise(int block) {
        return recomputesElementwise
                && parts.stream().anyMatch(part -> part instanceof KeptBlock b && b.index == block);
    }

    /** Returns the number of forward passes of single blocks that the backward pass repeats. */
    public int recomputedBlocks() {
        return recomputed(parts, 0);
    }

    private static int recomputed(List<PlanPart> parts, int depth) {
        int sum = 0;
        for (PlanPart part : parts) {
            sum += part instanceof RecomputedBlocks segment ? recomputed(segment.parts, depth + 1) : depth;
        }
        return sum;
    }

    /** Returns the number of blocks that recompute their elementwise functions and normalizations separately. */
    public int recomputedElementwise() {
        return recomputesElementwise
                ? (int) parts.stream().filter(KeptBlock.class::isInstance).count()
                : 0;
    }

    /** Returns the number of blocks that recompute their feed-forward layer separately. */
    public int recomputedFeedForwards() {
        return (int) keptBlocks(parts, FeedForwardActivations.RECOMPUTED).count();
    }

    /** Returns whether a block recomputes its feed-forward layer separately. */
    public boolean recomputesFeedForward(int block) {
        return keptBlocks(parts, FeedForwardActivations.RECOMPUTED).anyMatch(b -> b.index == block);
    }

    /** Returns whether a block keeps the inputs of its activation function in host memory. */
    public boolean offloadsFeedForward(int block) {
        return keptBlocks(parts, FeedForwardActivations.OFFLOADED).anyMatch(b -> b.index == block);
    }

    /** Returns this plan for the CPU, where nothing is offloaded: it keeps what this plan offloads. */
    public CheckpointPlan withoutOffloading() {
        var all = new ArrayList<PlanPart>(parts);
        all.replaceAll(part -> part instanceof KeptBlock b && b.feedForward == FeedForwardActivations.OFFLOADED
                ? new KeptBlock(b.index, FeedForwardActivations.KEPT)
                : part);
        return new CheckpointPlan(all, recomputesElementwise);
    }

    private static Stream<KeptBlock> keptBlocks(List<PlanPart> parts, FeedForwardActivations feedForward) {
        return parts.stream()
                .filter(KeptBlock.class::isInstance)
                .map(KeptBlock.class::cast)
                .filter(block -> block.feedForward == feedForward);
    }
}
