package cs336.distributed.training;

import cs336.distributed.collectives.PendingCollective;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Reduction;
import java.util.List;
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
    public Tensor collect(List<String> names, boolean[] present) {
        return bucket.collect(names, present);
    }

    /** Starts an in-place reduce-scatter. The buffer outside of this rank's shard keeps its values. */
    @Override
    public PendingCollective start(ProcessGroup group, Tensor gradients) {
        return group.reduceScatterAsync(shard, gradients, Reduction.AVERAGE);
    }

    /** Outside of this rank's shard, the result of a reduction has gradients of this rank only. */
    @Override
    public void requireZeroed(List<String> names) {
        int first = bucket.firstInBuffer();
        if (first >= 0) {
            throw new IllegalStateException("the gradient of parameter " + names.get(first)
                    + " is averaged already, and this rank has only its shard of the average; call zeroGrad() before"
                    + " the next backward pass and the next finishGradientSynchronization()");
        }
    }

    @Override
    public void close() {
        shard.close();
        bucket.close();
    }
}
