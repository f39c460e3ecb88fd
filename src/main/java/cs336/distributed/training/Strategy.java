package cs336.distributed.training;

import java.io.Serializable;
import java.math.BigDecimal;

/** How {@link DistributedDataParallel} brings gradients together. */
public sealed interface Strategy extends Serializable {
    /** 10⁶ bytes. */
    double MB = 1e6;

    /** After the backward pass, one all-reduce a parameter, one after the other. */
    static Strategy naive() {
        return new Naive();
    }

    /** After the backward pass, one all-reduce of a buffer with all gradients. */
    static Strategy flat() {
        return new Flat();
    }

    /** During the backward pass, one all-reduce a parameter, begun as soon as its gradient is ready. */
    static Strategy overlapped() {
        return new Overlapped();
    }

    /**
     * During the backward pass, one all-reduce a bucket of gradients, begun as soon as all of them are ready.
     *
     * @param megabytes the most that a bucket holds, in 10⁶ bytes; a larger tensor has a bucket for itself
     * @throws IllegalArgumentException if it is not a positive number
     */
    static Strategy bucketed(double megabytes) {
        return new Bucketed(megabytes);
    }

    /**
     * Reads {@code naive}, {@code flat}, {@code overlapped} or {@code bucketed}.
     *
     * @param megabytes of a bucket, where there are buckets
     * @throws IllegalArgumentException if the text is none of these
     */
    static Strategy parse(String mode, double megabytes) {
        return switch (mode) {
            case "naive" -> naive();
            case "flat" -> flat();
            case "overlapped" -> overlapped();
            case "bucketed" -> bucketed(megabytes);
            default ->
                throw new IllegalArgumentException(
                        "mode '" + mode + "' is unknown; known: naive, flat, overlapped, bucketed");
        };
    }

    /** Whether gradients are sent while the backward pass still runs. */
    boolean overlaps();

    /** See {@link #naive}. */
    record Naive() implements Strategy {
        @Override
        public boolean overlaps() {
            return false;
        }

        @Override
        public String toString() {
            return "naive";
        }
    }

    /** See {@link #flat}. */
    record Flat() implements Strategy {
        @Override
        public boolean overlaps() {
            return false;
        }

        @Override
        public String toString() {
            return "flat";
        }
    }

    /** See {@link #overlapped}. */
    record Overlapped() implements Strategy {
        @Override
        public boolean overlaps() {
            return true;
        }

        @Override
        public String toString() {
            return "overlapped";
        }
    }

    /**
     * See {@link #bucketed}.
     *
     * @param megabytes the most that a bucket holds, in 10⁶ bytes
     */
    record Bucketed(double megabytes) implements Strategy {
        public Bucketed {
            if (!(megabytes > 0)) {
                throw new IllegalArgumentException("bucket size must be above 0 MB, not " + megabytes);
            }
        }

        /** The most that a bucket holds. */
        long bytes() {
            return Math.max(1, (long) Math.min(Long.MAX_VALUE, megabytes * MB));
        }

        @Override
        public boolean overlaps() {
            return true;
        }

        @Override
        public String toString() {
            return "bucketed("
                    + new BigDecimal(String.valueOf(megabytes))
                            .stripTrailingZeros()
                            .toPlainString() + " MB)";
        }
    }
}
