package cs336.distributed.training;

import static cs336.units.UnitFactors.MB;

import java.io.Serializable;
import java.math.BigDecimal;
import java.util.Objects;

/** The strategy by which {@link DistributedDataParallel} averages gradients over ranks. */
public sealed interface Strategy extends Serializable {
    /** The largest bucket size in MB (10⁶ bytes): 2⁶³ − 1 bytes. */
    long MOST_MB = (long) (Long.MAX_VALUE / MB);

    /** Returns the strategy that all-reduces each gradient separately after the backward pass. */
    static Strategy naive() {
        return new Naive();
    }

    /** Returns the strategy that all-reduces one buffer per dtype with all gradients after the backward pass. */
    static Strategy flat() {
        return new Flat();
    }

    /**
     * Returns the strategy that starts an all-reduce of each gradient as soon as it is ready, during the backward pass.
     */
    static Strategy overlapped() {
        return new Overlapped();
    }

    /**
     * Returns the strategy that starts an all-reduce of each bucket of gradients as soon as all of them are ready,
     * during the backward pass.
     *
     * @param megabytes maximum size of a bucket in MB (10⁶ bytes); a larger gradient gets its own bucket
     * @throws IllegalArgumentException if {@link #requireBucketSize} rejects it
     */
    static Strategy bucketed(double megabytes) {
        return new Bucketed(megabytes);
    }

    /**
     * Parses {@code naive}, {@code flat}, {@code overlapped} or {@code bucketed}.
     *
     * @param megabytes maximum size of a bucket in MB (10⁶ bytes), for {@code bucketed}
     * @throws IllegalArgumentException if the mode is unknown, or {@link #requireBucketSize} rejects the size of
     *     {@code bucketed}
     */
    static Strategy parse(String mode, double megabytes) {
        Objects.requireNonNull(mode, "mode must not be null");
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

    /**
     * Checks the maximum size of a bucket.
     *
     * @param name the name of the argument or option
     * @param megabytes the size in MB (10⁶ bytes)
     * @throws IllegalArgumentException if it is not above 0, or is above 2⁶³ − 1 bytes
     */
    static void requireBucketSize(String name, double megabytes) {
        if (!(megabytes > 0)) {
            throw new IllegalArgumentException(name + " must be above 0, not " + megabytes);
        }
        if (megabytes > MOST_MB) {
            throw new IllegalArgumentException(name + " must be at most " + MOST_MB + ", not " + megabytes);
        }
    }

    /** Returns whether collectives overlap with the backward pass. */
    default boolean overlaps() {
        return this instanceof Overlapped || this instanceof Bucketed;
    }

    /** See {@link #naive}. */
    record Naive() implements Strategy {
        @Override
        public String toString() {
            return "naive";
        }
    }

    /** See {@link #flat}. */
    record Flat() implements Strategy {
        @Override
        public String toString() {
            return "flat";
        }
    }

    /** See {@link #overlapped}. */
    record Overlapped() implements Strategy {
        @Override
        public String toString() {
            return "overlapped";
        }
    }

    /**
     * See {@link #bucketed}.
     *
     * @param megabytes maximum size of a bucket in MB (10⁶ bytes)
     */
    record Bucketed(double megabytes) implements Strategy {
        public Bucketed {
            requireBucketSize("megabytes", megabytes);
        }

        /** Returns the maximum size of a bucket in bytes. */
        long bytes() {
            return Math.max(1, (long) (megabytes * MB));
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
