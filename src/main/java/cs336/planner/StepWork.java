package cs336.planner;

import cs336.basics.TransformerConfig;
import cs336.checkpointing.CheckpointPlan;
import cs336.checkpointing.CheckpointPolicy;
import cs336.scaling.ModelShape;
import cs336.scaling.memory.TensorMemory;
import cs336.scaling.memory.TensorMemory.TensorPurpose;
import cs336.units.Tokens;

/**
 * The amounts of work of a step that determine its kernel times.
 *
 * @param denseFlop FLOP of the forward pass, without the GEMMs inside attention
 * @param matrixElements elements of all weight matrices
 * @param pairs pairs of query and key of all heads, sequences and blocks; a causal mask is not considered
 * @param pairElements {@code pairs} times the width of a head
 * @param rowElements elements of the residual stream of all blocks
 * @param activationBytes saved activations and logits, without attention matrices
 * @param parameters number of parameters
 * @param blocks number of blocks
 * @param recomputed number of forward passes of single blocks that the backward pass repeats, divided by the number of
 *     blocks; without elementwise functions that are recomputed separately, which take little time, and without copies
 *     to the host
 * @param recomputedGemms FLOP of the GEMMs that the backward pass repeats, including those of single feed-forward
 *     layers, divided by the FLOP of all blocks' GEMMs
 */
record StepWork(
        double denseFlop,
        double matrixElements,
        double pairs,
        double pairElements,
        double rowElements,
        double activationBytes,
        double parameters,
        double blocks,
        double recomputed,
        double recomputedGemms) {
    private static final String MATRIX = "B × H × T × T";

    /** Returns the work of a plan. */
    static StepWork of(StepPlan plan) {
        TransformerConfig config = plan.config();
        long tokens = (long) plan.batch() * config.contextLength();
        ModelShape shape = ModelShape.of("model", config, plan.precision().compute());
        double activations = plan.withCheckpointing(CheckpointPolicy.everything()).memory().kept().stream()
                .filter(tensor -> tensor.purpose() == TensorPurpose.ACTIVATIONS
                        || tensor.purpose() == TensorPurpose.LOGITS_AND_LOSS)
                .filter(tensor -> !tensor.shape().equals(MATRIX))
                .mapToDouble(TensorMemory::bytes)
                .sum();
        int blocks = config.numLayers();
        double pairs = (double) tokens * config.contextLength() * config.numHeads() * blocks;
        CheckpointPlan checkpoints = config.checkpointing().plan(blocks);
        double recomputed = (double) checkpoints.recomputedBlocks() / blocks;
        double attentionMatrices = 4.0 * config.dModel() * config.dModel();
        double ofFeedForward = 1 - attentionMatrices / shape.blockMatrices();
        return new StepWork(
                shape.forward(new Tokens(tokens)).count(),
                (double) blocks * shape.blockMatrices() + shape.headMatrix(),
                pairs,
                pairs * config.headDim(),
                (double) tokens * config.dModel() * blocks,
                activations,
                config.parameterCount(),
                blocks,
                recomputed,
                recomputed + ofFeedForward * checkpoints.recomputedFeedForwards() / blocks);
    }
}
