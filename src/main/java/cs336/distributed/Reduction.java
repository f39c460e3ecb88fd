package cs336.distributed;

import org.bytedeco.pytorch.ReduceOp.RedOpType;

/** How the values of all ranks become one. */
public enum Reduction {
    SUM(RedOpType.SUM),
    /** The sum divided by the number of ranks. NCCL does it in one; with Gloo the sum is divided once it is there. */
    AVERAGE(RedOpType.AVG),
    MAX(RedOpType.MAX);

    private final RedOpType type;

    Reduction(RedOpType type) {
        this.type = type;
    }

    /** What the backend is asked to do. */
    RedOpType on(Backend backend) {
        return divides(backend) ? RedOpType.SUM : type;
    }

    /** Whether the result is still to be divided by the number of ranks. */
    boolean divides(Backend backend) {
        return this == AVERAGE && backend == Backend.GLOO;
    }
}
