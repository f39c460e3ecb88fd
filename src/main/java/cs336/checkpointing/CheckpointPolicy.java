package cs336.checkpointing;

import static cs336.checkpointing.CheckpointPlan.FeedForwardActivations.KEPT;
import static cs336.checkpointing.CheckpointPlan.FeedForwardActivations.OFFLOADED;
import static cs336.checkpointing.CheckpointPlan.FeedForwardActivations.RECOMPUTED;

import cs336.checkpointing.CheckpointPlan.FeedForwardActivations;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * A policy that states which activations the blocks of a model keep for the backward pass. The others are recomputed
 * ({@link ActivationCheckpoint}) or in host memory ({@link HostStore}). Memory and time for N blocks:
 *
 * <table>
 *   <caption>Policies</caption>
 *   <tr><th>policy</th><th>activations at the peak</th><th>forward passes of a block that are recomputed</th></tr>
 *   <tr><td>{@link #everything}</td><td>N blocks</td><td>0</td></tr>
 *   <tr><td>{@link #elementwise elementwise(k)}</td><td>N blocks without the results of normalizations and
 *       activation functions, the first k also without the rest of their feed-forward layers</td>
 *       <td>0 (only these functions, and k feed-forward layers)</td></tr>
 *   <tr><td>{@link #offloading offloading(k)}</td><td>as {@code elementwise(0)}, the first k blocks without their
 *       feed-forward layers</td><td>0 (only these functions)</td></tr>
 *   <tr><td>{@link #allButFeedForward}</td><td>N blocks, all but one of them without their feed-forward layers</td>
 *       <td>N feed-forward layers</td></tr>
 *   <tr><td>{@link #feedForwards feedForwards(k)}</td><td>N blocks, the first k of them without their feed-forward
 *       layers</td><td>k feed-forward layers</td></tr>
 *   <tr><td>{@link #blocks blocks(k)}</td><td>N ÷ k inputs and k blocks</td><td>N</td></tr>
 *   <tr><td>{@link #recursive}</td><td>log₂ N inputs and 1 block</td><td>N ÷ 2 · log₂ N</td></tr>
 * </table>
 *
 * <p>Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016.
 */
public sealed interface CheckpointPolicy {
    /** The texts that {@link #parse} reads, for the help of a command. */
    String TEXTS =
            "everything, elementwise (all but the results of normalizations and activation functions), all-but-ffn,"
                    + " ffn-<k> (all but the feed-forward layers of the first k blocks), elementwise+ffn-<k> (elementwise in"
                    + " all blocks, ffn in the first k), elementwise+offload-<k> (elementwise in all blocks, and"
                    + " the first k keep the inputs of their activation functions in host memory; not in compiled steps),"
                    + " blocks-<k> (the input of every k-th block), nothing (as blocks-1), recursive (halving)";

    /**
     * Returns the plan for a number of blocks, at least 1.
     *
     * @throws IllegalArgumentException if this is a {@link #budget} that even recursive halving exceeds
     */
    CheckpointPlan plan(int blocks);

    /** Returns the policy that keeps all activations and recomputes nothing. */
    static CheckpointPolicy everything() {
        return new Everything();
    }

    /**
     * Returns the policy that recomputes the results of normalizations and of the activation functions of feed-forward
     * layers. It keeps the results of linear layers and of attention. In the first k blocks it also recomputes the
     * whole feed-forward layer. Without such blocks (k = 0) it repeats no matrix multiplication.
     *
     * @throws IllegalArgumentException if k is below 0
     */
    static CheckpointPolicy elementwise(int k) {
        return new Elementwise(k, RECOMPUTED);
    }

    /**
     * Returns the policy that recomputes the results of normalizations and activation functions, as
     * {@link #elementwise}. The first k blocks keep the inputs of their activation functions in host memory
     * ({@link HostStore}). If a block takes longer than the copies, they overlap with computation completely. The
     * policy cannot be used in compiled steps, which throw an {@link IllegalStateException}. Second derivatives throw
     * an exception in the backward pass.
     *
     * @throws IllegalArgumentException if k is below 0
     */
    static CheckpointPolicy offloading(int k) {
        return new Elementwise(k, OFFLOADED);
    }

    /** Returns the policy that keeps nothing but the input of each block. */
    static CheckpointPolicy nothing() {
        return blocks(1);
    }

    /**
     * Returns the policy that recomputes the feed-forward layers and their normalizations of all blocks, from the input
     * of the normalization. It keeps all other activations.
     */
    static CheckpointPolicy allButFeedForward() {
        return new AllButFeedForward();
    }

    /**
     * Returns the policy that recomputes the feed-forward layers and their normalizations of the first k blocks only.
     *
     * @throws IllegalArgumentException if k is below 1
     */
    static CheckpointPolicy feedForwards(int k) {
        return new FeedForwards(k);
    }

    /**
     * Returns the policy that keeps the input of every k-th block and recomputes k blocks together.
     *
     * @throws IllegalArgumentException if k is below 1
     */
    static CheckpointPolicy blocks(int k) {
        return new Blocks(k);
    }

    /**
     * Returns recursive halving. It recomputes the first half of the blocks as one function, which recomputes its own
     * first half as one function, and so on. The second half is divided in the same way. The number of stored
     * activations grows with the logarithm of the number of blocks.
     */
    static CheckpointPolicy recursive() {
        return new RecursiveHalving();
    }

    /**
     * Returns the policy that recomputes as little as necessary for the activations of all blocks to fit into a number
     * of bytes. It recomputes elementwise functions first, then also feed-forward layers, then whole blocks, and then
     * halves recursively. It recomputes the first blocks, because the backward pass reaches them last. By then the
     * activations of the other blocks have been freed.
     *
     * @param bytes the memory for the activations of all blocks, at least 0
     * @param block the memory of one block
     * @throws IllegalArgumentException if the budget is negative
     */
    static CheckpointPolicy budget(long bytes, BlockBytes block) {
        return new ByteBudget(bytes, block);
    }

    /**
     * Parses {@code everything}, {@code elementwise}, {@code elementwise+ffn-12}, {@code elementwise+offload-12},
     * {@code all-but-ffn}, {@code ffn-24}, {@code nothing}, {@code recursive}, or {@code blocks-4}.
     *
     * @throws IllegalArgumentException if the text is none of these
     */
    static CheckpointPolicy parse(String text) {
        Objects.requireNonNull(text, "text must not be null");
        return switch (text) {
            case "everything" -> everything();
            case "elementwise" -> elementwise(0);
            case "all-but-ffn" -> allButFeedForward();
            case "nothing" -> nothing();
            case "recursive" -> recursive();
            default -> {
                if (text.matches("budget-\\d+")) {
                    throw new IllegalArgumentException(
                            "checkpointing policy '" + text + "' is known only to the command checkpointing");
                }
                if (!text.matches("(blocks|ffn|elementwise\\+(ffn|offload))-[1-9]\\d{0,5}")) {
                    throw new IllegalArgumentException("checkpointing policy '" + text + "' is unknown; known: "
                            + "everything, elementwise, elementwise+ffn-<k>, elementwise+offload-<k>, all-but-ffn,"
                            + " ffn-<k>, nothing, blocks-<k>, recursive");
                }
                int dash = text.indexOf('-');
                int k = Integer.parseInt(text.substring(dash + 1));
                yield switch (text.substring(0, dash)) {
                    case "elementwise+offload" -> offloading(k);
                    case "elementwise+ffn" -> elementwise(k);
                    case "ffn" -> feedForwards(k);
                    default -> blocks(k);
                };
            }
        };
    }

    /** The policy of {@link #everything}. */
    record Everything() implements CheckpointPolicy {
        @Override
        public CheckpointPlan plan(int blocks) {
            return new CheckpointPlan(chain(0, blocks, KEPT));
        }

        @Override
        public String toString() {
            return "everything";
        }
    }

    /**
     * The policy of {@link #elementwise}.
     *
     * @param k the number of first blocks that do not keep all activations of their feed-forward layers
     * @param ofFirst the activations that these blocks keep of their feed-forward layers
     */
    record Elementwise(int k, FeedForwardActivations ofFirst) implements CheckpointPolicy {
        public Elementwise {
            Objects.requireNonNull(ofFirst, "ofFirst must not be null");
            if (k < 0) {
                throw new IllegalArgumentException("k must be at least 0, not " + k);
            }
        }

        @Override
        public CheckpointPlan plan(int blocks) {
            return new CheckpointPlan(chain(k, ofFirst, blocks), true);
        }

        @Override
        public String toString() {
            return k == 0 ? "elementwise" : "elementwise+" + (ofFirst == OFFLOADED ? "offload-" : "ffn-") + k;
        }
    }

    /** The policy of {@link #allButFeedForward}. */
    record AllButFeedForward() implements CheckpointPolicy {
        @Override
        public CheckpointPlan plan(int blocks) {
            return new CheckpointPlan(chain(0, blocks, RECOMPUTED));
        }

        @Override
        public String toString() {
            return "all-but-ffn";
        }
    }

    /**
     * The policy of {@link #feedForwards}.
     *
     * @param k the number of blocks whose feed-forward layers are recomputed
     */
    record FeedForwards(int k) implements CheckpointPolicy {
        public FeedForwards {
            if (k < 1) {
                throw new IllegalArgumentException("k must be at least 1, not " + k);
            }
        }

        @Override
        public CheckpointPlan plan(int blocks) {
            return new CheckpointPlan(chain(k, RECOMPUTED, blocks));
        }

        @Override
        public String toString() {
            return "ffn-" + k;
        }
    }

    /**
     * The policy of {@link #blocks}.
     *
     * @param k the number of blocks that are recomputed together
     */
    record Blocks(int k) implements CheckpointPolicy {
        public Blocks {
            if (k < 1) {
                throw new IllegalArgumentException("blocks must be at least 1, not " + k);
            }
        }

        @Override
        public CheckpointPlan plan(int blocks) {
            var parts = new ArrayList<CheckpointPlan.PlanPart>();
            for (int first = 0; first < blocks; first += k) {
                parts.add(new CheckpointPlan.RecomputedBlocks(chain(first, Math.min(first + k, blocks), KEPT)));
            }
            return new CheckpointPlan(parts);
        }

        @Override
        public String toString() {
            return "blocks-" + k;
        }
    }

    /** The policy of {@link #recursive}. */
    record RecursiveHalving() implements CheckpointPolicy {
        @Override
        public CheckpointPlan plan(int blocks) {
            return new CheckpointPlan(halves(0, blocks));
        }

        private static List<CheckpointPlan.PlanPart> halves(int from, int to) {
            if (to - from == 1) {
                return chain(from, to, KEPT);
            }
            int middle = from + (to - from) / 2;
            var parts = new ArrayList<CheckpointPlan.PlanPart>();
            parts.add(new CheckpointPlan.RecomputedBlocks(halves(from, middle)));
            parts.addAll(halves(middle, to)); // not a segment: its backward pass comes next
            return parts;
        }

        @Override
        public String toString() {
            return "recursive";
        }
    }

    /**
     * The policy of {@link #budget}.
     *
     * @param bytes the memory for the activations of all blocks
     * @param block the memory of one block
     */
    record ByteBudget(long bytes, BlockBytes block) implements CheckpointPolicy {
        public ByteBudget {
            if (bytes < 0) {
                throw new IllegalArgumentException("bytes must be at least 0, not " + bytes);
            }
        }

        /** @throws IllegalArgumentException if even recursive halving needs more memory */
        @Override
        public CheckpointPlan plan(int blocks) {
            return Stream.of(
                            Stream.of(everything().plan(blocks)),
                            IntStream.rangeClosed(0, blocks)
                                    .mapToObj(k -> elementwise(k).plan(blocks)),
                            IntStream.rangeClosed(1, blocks).mapToObj(k -> wholeBlocks(k, blocks)),
                            Stream.of(recursive().plan(blocks)))
                    .flatMap(plans -> plans)
                    .filter(plan -> plan.peakBytes(block) <= bytes)
                    .findFirst()
                    .orElseThrow(() -> new IllegalArgumentException("checkpointing budget must be at least "
                            + recursive().plan(blocks).peakBytes(block) + " bytes for " + blocks + " blocks, not "
                            + bytes));
        }

        /** Recomputes the first k blocks, and the feed-forward layers and elementwise functions of the others. */
        private static CheckpointPlan wholeBlocks(int k, int blocks) {
            var parts = new ArrayList<>(nothing().plan(k).parts());
            parts.addAll(chain(k, blocks, RECOMPUTED));
            return new CheckpointPlan(parts, true);
        }

        @Override
        public String toString() {
            return "budget-" + bytes;
        }
    }

    private static List<CheckpointPlan.PlanPart> chain(int k, FeedForwardActivations ofFirst, int blocks) {
        int first = Math.min(k, blocks);
        var parts = new ArrayList<>(chain(0, first, ofFirst));
        parts.addAll(chain(first, blocks, KEPT));
        return parts;
    }

    private static List<CheckpointPlan.PlanPart> chain(int from, int to, FeedForwardActivations feedForward) {
        return IntStream.range(from, to)
                .<CheckpointPlan.PlanPart>mapToObj(i -> new CheckpointPlan.KeptBlock(i, feedForward))
                .toList();
    }
}
