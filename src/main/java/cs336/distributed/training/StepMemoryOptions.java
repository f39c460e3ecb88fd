package cs336.distributed.training;

import cs336.bench.ArgumentCheck;
import cs336.checkpointing.CheckpointPolicy;
import picocli.CommandLine.Option;

/**
 * The command-line options that, together with the model and the mode, determine the memory of a step on several GPUs.
 */
public final class StepMemoryOptions {
    @Option(
            names = "--bucket-size-mb",
            defaultValue = "25",
            paramLabel = "<n>",
            description = "maximum bucket size of gradients and parameters in ddp and zero-1, in MB (10^6 bytes)")
    private double bucketMb;

    @Option(
            names = "--checkpointing",
            defaultValue = "everything",
            paramLabel = "<policy>",
            description = "activations that are kept for the backward pass: " + CheckpointPolicy.TEXTS
                    + "; the others are recomputed, unless they are in host memory")
    private String checkpointing;

    @Option(
            names = "--loss-rows",
            defaultValue = "0",
            paramLabel = "<n>",
            description = "number of tokens whose logits are in memory at a time; 0 for all")
    private int lossRows;

    /**
     * Checks the options.
     *
     * @throws IllegalArgumentException if the policy is unknown, or a number is out of range
     */
    public void check() {
        Strategy.requireBucketSize("--bucket-size-mb", bucketMb);
        CheckpointPolicy.parse(checkpointing);
        ArgumentCheck.atLeast("--loss-rows", 0, lossRows);
    }

    /** Returns the maximum size of a bucket in MB (10⁶ bytes). */
    public double bucketMb() {
        return bucketMb;
    }

    /** Returns the policy of activation checkpointing. */
    public CheckpointPolicy checkpointing() {
        return CheckpointPolicy.parse(checkpointing);
    }

    /** Returns the number of tokens whose logits are in memory at a time; 0 for all. */
    public int lossRows() {
        return lossRows;
    }
}
