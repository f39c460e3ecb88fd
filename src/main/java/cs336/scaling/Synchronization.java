package cs336.scaling;

import cs336.units.Bytes;

/** A schedule of the gradient synchronization of data parallelism. */
public sealed interface Synchronization {
    /** After the backward pass, each gradient individually: the naive mode. */
    record EachAfterBackward() implements Synchronization {}

    /** After the backward pass, all gradients at once, copied into one tensor. */
    record FlatAfterBackward() implements Synchronization {}

    /**
     * During the backward pass, in buckets filled from the last layer on. A bucket is sent as soon as its last gradient
     * is ready.
     *
     * @param most largest size of a bucket; a larger tensor gets a separate bucket. 0 for one bucket per tensor
     */
    record Buckets(Bytes most) implements Synchronization {}

    /** Returns the naive mode: each gradient individually, after the backward pass. */
    static Synchronization each() {
        return new EachAfterBackward();
    }

    /** Returns the flat mode: all gradients in one tensor, after the backward pass. */
    static Synchronization flat() {
        return new FlatAfterBackward();
    }

    /** Returns the overlapped mode: each gradient individually, during the backward pass. */
    static Synchronization overlapped() {
        return new Buckets(Bytes.NONE);
    }

    /** Returns the bucketed mode: gradients in buckets of a largest size, during the backward pass. */
    static Synchronization buckets(Bytes most) {
        return new Buckets(most);
    }
}
