package cs336.scaling;

import cs336.units.Bytes;

/** When the gradients of replicas are summed. */
public sealed interface Synchronization {
    /** After the backward pass, one tensor after the other: the naive way. */
    record EachAfterBackward() implements Synchronization {}

    /** After the backward pass, all tensors copied into one and back. */
    record FlatAfterBackward() implements Synchronization {}

    /**
     * During the backward pass, in buckets filled from the last layer on; a bucket is sent when its last gradient is
     * there.
     *
     * @param most bytes of a bucket; a larger tensor has one of its own. 0: each tensor by itself
     */
    record Buckets(Bytes most) implements Synchronization {}

    static Synchronization each() {
        return new EachAfterBackward();
    }

    static Synchronization flat() {
        return new FlatAfterBackward();
    }

    static Synchronization overlapped() {
        return new Buckets(Bytes.NONE);
    }

    static Synchronization buckets(Bytes most) {
        return new Buckets(most);
    }
}
