package cs336.distributed.collectives;

import org.bytedeco.pytorch.ReduceOp.RedOpType;

/** How the values of all ranks become one. */
public enum Reduction {
    SUM(RedOpType.SUM),
    /**
     * The sum divided by the number of ranks. NCCL does it in one; with Gloo the sum is divided once it is there, in
     * fp16 what each rank gives to it.
     */
    AVERAGE(RedOpType.AVG),
    MAX(RedOpType.MAX);

    private final RedOpType type;

    Reduction(RedOpType type) {
        this.type = type;
    }

    /** What the backend is asked to do. */
    RedOpType on(CollectiveBackend backend) {
        return divides(backend) ? RedOpType.SUM : type;
    }

    /** Whether the backend only adds, so that dividing by the number of ranks is left to do. */
    boolean divides(CollectiveBackend backend) {
        return this == AVERAGE && backend == CollectiveBackend.GLOO;
    }
}
