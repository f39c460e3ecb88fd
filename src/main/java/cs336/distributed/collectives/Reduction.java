package cs336.distributed.collectives;

import org.bytedeco.pytorch.ReduceOp.RedOpType;

/** The operation that combines the values of all ranks. */
public enum Reduction {
    SUM(RedOpType.SUM),
    /**
     * The sum divided by the number of ranks. NCCL averages natively. Gloo only sums, so the sum is divided afterwards;
     * in fp16, where the sum could overflow, each input is divided before.
     */
    AVERAGE(RedOpType.AVG),
    MAX(RedOpType.MAX);

    private final RedOpType type;

    Reduction(RedOpType type) {
        this.type = type;
    }

    /** Returns the operation that the backend performs. */
    RedOpType on(CollectiveBackend backend) {
        return divides(backend) ? RedOpType.SUM : type;
    }

    /** Returns whether the caller must divide by the number of ranks, because the backend only sums. */
    boolean divides(CollectiveBackend backend) {
        return this == AVERAGE && backend == CollectiveBackend.GLOO;
    }
}
