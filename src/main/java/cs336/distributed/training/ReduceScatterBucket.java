package cs336.distributed.training;

import cs336.distributed.collectives.PendingCollective;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Reduction;
import org.bytedeco.pytorch.Tensor;

/** A bucket of gradients that is reduce-scattered: each rank gets the average of its shard only. */
final class ReduceScatterBucket implements GradientCollective {
    private final GradientBucket bucket;
    private final Tensor shard;

    /**
     * Creates a collective for a bucket.
     *
     * @param shard this rank's shard of the bucket's buffer; closed with it
     */
    ReduceScatterBucket(GradientBucket bucket, Tensor shard) {
        this.bucket = bucket;
        this.shard = shard;
    }

    @Override
    public int[] members() {
        return bucket.members();
    }

    @Override
    public Tensor collect(boolean[] present) {
        return bucket.collect(present);
    }

    /** Starts an in-place reduce-scatter. The buffer outside of this rank's shard keeps its values. */
    @Override
    public PendingCollective start(ProcessGroup group, Tensor gradients) {
        return group.reduceScatterAsync(shard, gradients, Reduction.AVERAGE);
    }

    @Override
    public void close() {
        shard.close();
        bucket.close();
    }
}
