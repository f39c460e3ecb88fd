package cs336.distributed.training;

import cs336.distributed.collectives.PendingCollective;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Reduction;
import org.bytedeco.pytorch.Tensor;

/** A bucket of gradients of which each rank needs the average of its own stretch only. */
final class ReduceScatterBucket implements GradientCollective {
    private final GradientBucket bucket;
    private final Tensor own;

    /** @param own this rank's stretch of the bucket's buffer; closed with it */
    ReduceScatterBucket(GradientBucket bucket, Tensor own) {
        this.bucket = bucket;
        this.own = own;
    }

    @Override
    public int[] members() {
        return bucket.members();
    }

    @Override
    public Tensor collect(boolean[] present) {
        return bucket.collect(present);
    }

    /** In place: the average is where this rank's part was. What lies elsewhere stays. */
    @Override
    public PendingCollective send(ProcessGroup group, Tensor gradients) {
        return group.reduceScatterAsync(own, gradients, Reduction.AVERAGE);
    }

    @Override
    public void close() {
        own.close();
        bucket.close();
    }
}
