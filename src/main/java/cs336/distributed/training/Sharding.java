package cs336.distributed.training;

/** How a {@link ShardedOptimizer} divides parameters among ranks, and how what each has updated comes to the others. */
public sealed interface Sharding {
    /**
     * Whole parameters, dealt out so that ranks have about as many bytes each; after an update every parameter is
     * broadcast by itself from the rank that owns it. The course's way. Gradients must have been averaged before, as
     * {@code DistributedDataParallel} does.
     */
    record Broadcast() implements Sharding {
        @Override
        public String toString() {
            return "broadcast";
        }
    }

    /**
     * Parameters are views into flat buckets, of which each rank owns an equal stretch, wherever in a parameter that
     * begins or ends; after an update each bucket is gathered in place, in the order in which parameters were given,
     * which is best that of the forward pass: see {@link ShardedOptimizer#overlapWith}. For optimizers that treat every
     * number by itself, as AdamW and SGD do.
     *
     * <p>Of gradients a rank needs only the average of its own stretch. Where {@link DistributedDataParallel} is made
     * with the optimizer, they are reduced and scattered into that, not all-reduced: then this is stage 1 of ZeRO
     * (Rajbhandari et al., <a href="https://arxiv.org/abs/1910.02054">arXiv:1910.02054</a>).
     *
     * @param bucketMb most megabytes (10⁶ bytes) of a bucket, above 0; a parameter that is larger has one by itself
     */
    record AllGather(double bucketMb) implements Sharding {
        public AllGather {
            requirePositive(bucketMb);
        }

        @Override
        public String toString() {
            return "all-gather";
        }
    }

    /** See {@link Broadcast}. */
    static Sharding broadcast() {
        return new Broadcast();
    }

    /** See {@link AllGather}. */
    static Sharding allGather(double bucketMb) {
        return new AllGather(bucketMb);
    }

    private static void requirePositive(double bucketMb) {
        if (!(bucketMb > 0 && bucketMb < Double.POSITIVE_INFINITY)) {
            throw new IllegalArgumentException("bucketMb must be above 0 and finite, not " + bucketMb);
        }
    }
}
