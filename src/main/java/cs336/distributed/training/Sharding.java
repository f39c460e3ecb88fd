package cs336.distributed.training;

/** The division of parameters among ranks by a {@link ShardedOptimizer}, and the exchange of updated parameters. */
public sealed interface Sharding {
    /**
     * Each rank owns whole parameters, balanced by bytes, and broadcasts each one separately after an update. This is
     * the course's scheme. Gradients must be averaged on all ranks before the step, as {@code DistributedDataParallel}
     * does.
     */
    record Broadcast() implements Sharding {
        @Override
        public String toString() {
            return "broadcast";
        }
    }

    /**
     * Parameters are views into flat buckets, and each rank owns an equal shard of each bucket, whose boundaries may be
     * inside a parameter. After an update each bucket is all-gathered in place, in the order in which parameters were
     * given. This should be the order of the forward pass: see {@link ShardedOptimizer#overlapWith}. The optimizer must
     * be elementwise, as AdamW and SGD are.
     *
     * <p>A rank needs the averaged gradients of its own shard only. If a {@link DistributedDataParallel} is created
     * with the optimizer, gradients are reduce-scattered instead of all-reduced. This is ZeRO stage 1 (Rajbhandari et
     * al., <a href="https://arxiv.org/abs/1910.02054">arXiv:1910.02054</a>).
     *
     * @param bucketMb maximum size of a bucket in MB (10⁶ bytes), above 0; a larger parameter gets its own bucket
     */
    record AllGather(double bucketMb) implements Sharding {
        public AllGather {
            Strategy.requireBucketSize("bucketMb", bucketMb);
        }

        @Override
        public String toString() {
            return "all-gather";
        }
    }

    /** Returns a {@link Broadcast} sharding. */
    static Sharding broadcast() {
        return new Broadcast();
    }

    /** Returns an {@link AllGather} sharding with buckets of at most {@code bucketMb} MB (10⁶ bytes). */
    static Sharding allGather(double bucketMb) {
        return new AllGather(bucketMb);
    }
}
