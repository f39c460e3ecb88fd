package cs336.checkpointing;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class CheckpointPolicyTest {
    private static final BlockBytes BLOCK = new BlockBytes(100, 40, 10, 30, 20);

    /** Runs a plan on blocks that only count, and returns the peak of the activations in memory. */
    private static final class CountingRun {
        private final int[] runs;
        private BlockBytes size = BLOCK;
        private final List<Integer> backward = new ArrayList<>();
        private long live;
        private long peak;

        CountingRun(int blocks) {
            runs = new int[blocks];
        }

        long of(CheckpointPlan plan) {
            size = plan.recomputesElementwise() ? BLOCK.withoutElementwise() : BLOCK;
            forwardAndBackward(plan.parts());
            assertEquals(0, live);
            return peak;
        }

        /** The backward pass of a list of parts: a forward pass that keeps what the plan says, then part by part. */
        private void forwardAndBackward(List<CheckpointPlan.PlanPart> parts) {
            for (CheckpointPlan.PlanPart part : parts) {
                forward(part);
                allocate(kept(part));
            }
            for (int i = parts.size() - 1; i >= 0; i--) {
                if (parts.get(i) instanceof CheckpointPlan.RecomputedBlocks segment) {
                    allocate(-BLOCK.input()); // the first part of the segment keeps the same tensor
                    forwardAndBackward(segment.parts());
                } else {
                    var block = (CheckpointPlan.KeptBlock) parts.get(i);
                    backward.add(block.index());
                    boolean copiesBack = i > 0 && isOnHost(parts.get(i - 1));
                    allocate(BLOCK.kept() - kept(block));
                    allocate(copiesBack ? size.keptByFeedForward() : 0);
                    allocate(-BLOCK.kept());
                    allocate(copiesBack ? -size.keptByFeedForward() : 0); // counted again in the next block
                }
            }
        }

        private static boolean isOnHost(CheckpointPlan.PlanPart part) {
            return part instanceof CheckpointPlan.KeptBlock block
                    && block.feedForward() == CheckpointPlan.FeedForwardActivations.OFFLOADED;
        }

        private void forward(CheckpointPlan.PlanPart part) {
            if (part instanceof CheckpointPlan.RecomputedBlocks segment) {
                segment.parts().forEach(this::forward);
            } else {
                runs[((CheckpointPlan.KeptBlock) part).index()]++;
            }
        }

        private long kept(CheckpointPlan.PlanPart part) {
            if (part instanceof CheckpointPlan.RecomputedBlocks) {
                return BLOCK.input();
            }
            return switch (((CheckpointPlan.KeptBlock) part).feedForward()) {
                case KEPT -> size.kept();
                case RECOMPUTED, OFFLOADED -> size.kept() - size.keptByFeedForward();
            };
        }

        private void allocate(long bytes) {
            live += bytes;
            peak = Math.max(peak, live);
        }
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "everything",
                "all-but-ffn",
                "ffn-5",
                "elementwise",
                "elementwise+ffn-5",
                "elementwise+offload-5",
                "nothing",
                "blocks-2",
                "blocks-5",
                "blocks-100",
                "recursive"
            })
    void plansRunEachBlockInOrderWithThePredictedMemory(String name) {
        for (int blocks : new int[] {1, 2, 3, 7, 12, 48}) {
            CheckpointPlan plan = CheckpointPolicy.parse(name).plan(blocks);
            var run = new CountingRun(blocks);
            assertEquals(run.of(plan), plan.peakBytes(BLOCK), name + " " + blocks);
            int extra = 0;
            for (int i = 0; i < blocks; i++) {
                assertEquals(blocks - 1 - i, run.backward.get(i));
                extra += run.runs[i] - 1;
            }
            assertEquals(extra, plan.recomputedBlocks(), name + " " + blocks);
        }
    }

    @Test
    void peaksOfTheSimplePolicies() {
        assertEquals(12 * 100, CheckpointPolicy.everything().plan(12).peakBytes(BLOCK));
        assertEquals(12 * 60 + 40, CheckpointPolicy.allButFeedForward().plan(12).peakBytes(BLOCK));
        assertEquals(5 * 60 + 7 * 100, CheckpointPolicy.feedForwards(5).plan(12).peakBytes(BLOCK));
        assertEquals(12 * 70 + 30, CheckpointPolicy.elementwise(0).plan(12).peakBytes(BLOCK));
        assertEquals(
                5 * 50 + 7 * 70 + 30, CheckpointPolicy.elementwise(5).plan(12).peakBytes(BLOCK));
        assertEquals(
                5 * 50 + 7 * 70 + 30, CheckpointPolicy.offloading(5).plan(12).peakBytes(BLOCK));
        assertEquals(
                12 * 50 + 20 + 20 + 30, CheckpointPolicy.offloading(12).plan(12).peakBytes(BLOCK));
        assertEquals(0, CheckpointPolicy.offloading(12).plan(12).recomputedFeedForwards());
        assertEquals(11 * 10 + 100, CheckpointPolicy.nothing().plan(12).peakBytes(BLOCK));
        assertEquals(2 * 10 + 4 * 100, CheckpointPolicy.blocks(4).plan(12).peakBytes(BLOCK));
        assertEquals(12, CheckpointPolicy.blocks(4).plan(12).recomputedBlocks());
    }

    @Test
    void recursiveHalvingKeepsLogarithmicallyManyInputsAndRecomputesLinearlyLogarithmicallyMany() {
        for (int log = 0; log <= 10; log++) {
            int n = 1 << log;
            CheckpointPlan plan = CheckpointPolicy.recursive().plan(n);
            assertEquals(log * 10 + 100, plan.peakBytes(BLOCK));
            assertEquals(n / 2 * log, plan.recomputedBlocks());
        }
    }

    @Test
    void aBudgetRecomputesAsLittleAsNecessary() {
        int[] recomputedFeedForwards = new int[5];
        int blocks = 4;
        long least = CheckpointPolicy.recursive().plan(blocks).peakBytes(BLOCK);
        int previous = Integer.MAX_VALUE;
        for (long bytes = least; bytes <= 400; bytes++) {
            CheckpointPlan plan = CheckpointPolicy.budget(bytes, BLOCK).plan(blocks);
            assertTrue(plan.peakBytes(BLOCK) <= bytes);
            int feedForwards = 0;
            for (int i = 0; i < blocks; i++) {
                feedForwards += plan.recomputesFeedForward(i) ? 1 : 0;
            }
            int cost = 10 * plan.recomputedBlocks() + 2 * feedForwards + (plan.recomputesElementwise() ? 1 : 0);
            assertTrue(cost <= previous, "more memory, more recomputation");
            previous = cost;
            if (plan.recomputedBlocks() == 0) {
                recomputedFeedForwards[feedForwards]++;
            }
        }
        assertEquals(0, previous, "4 blocks fit into 400 bytes");
        // Without elementwise results 4 blocks need 4 · 70 + 30 bytes, and each recomputed feed-forward layer 20 less.
        // All four need 20 for the backward pass of the last one.
        assertArrayEquals(new int[] {91, 20, 20, 20, 0}, recomputedFeedForwards);
        var error = assertThrows(
                IllegalArgumentException.class,
                () -> CheckpointPolicy.budget(least - 1, BLOCK).plan(blocks));
        assertEquals(
                "checkpointing budget must be at least " + least + " bytes for 4 blocks, not " + (least - 1),
                error.getMessage());
    }

    @Test
    void onlyBlocksThatKeepActivationsRecomputeElementwiseFunctions() {
        var parts = new ArrayList<>(CheckpointPolicy.nothing().plan(3).parts());
        assertFalse(new CheckpointPlan(parts, true).recomputesElementwise());
        parts.add(new CheckpointPlan.KeptBlock(3, CheckpointPlan.FeedForwardActivations.RECOMPUTED));
        parts.add(new CheckpointPlan.KeptBlock(4, CheckpointPlan.FeedForwardActivations.KEPT));
        var plan = new CheckpointPlan(parts, true);
        assertEquals(2, plan.recomputedElementwise());
        assertFalse(plan.recomputesElementwise(2));
        assertTrue(plan.recomputesElementwise(3));
    }

    @Test
    void namesAreReadBack() {
        for (String name : List.of(
                "everything",
                "elementwise",
                "elementwise+ffn-3",
                "elementwise+offload-3",
                "all-but-ffn",
                "ffn-24",
                "blocks-1",
                "blocks-12",
                "recursive")) {
            assertEquals(name, CheckpointPolicy.parse(name).toString());
        }
        assertEquals(CheckpointPolicy.nothing(), CheckpointPolicy.blocks(1));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "blocks",
                "blocks-0",
                "blocks--1",
                "blocks-1000000",
                "ffn-0",
                "elementwise+ffn-0",
                "elementwise+offload-0",
                "elementwise-3",
                "Recursive"
            })
    void unknownNamesAreRefused(String name) {
        String message = assertThrows(IllegalArgumentException.class, () -> CheckpointPolicy.parse(name))
                .getMessage();
        assertEquals(
                "checkpointing policy '" + name
                        + "' is unknown; known: everything, elementwise, elementwise+ffn-<k>,"
                        + " elementwise+offload-<k>, all-but-ffn, ffn-<k>, nothing, blocks-<k>, recursive",
                message);
    }

    @Test
    void impossibleSizesAreRefused() {
        assertThrows(IllegalArgumentException.class, () -> CheckpointPolicy.blocks(0));
        assertThrows(IllegalArgumentException.class, () -> CheckpointPolicy.budget(-1, BLOCK));
        assertThrows(IllegalArgumentException.class, () -> CheckpointPolicy.elementwise(-1));
        assertThrows(IllegalArgumentException.class, () -> CheckpointPolicy.offloading(-1));
        List<CheckpointPlan.PlanPart> offloaded =
                CheckpointPolicy.offloading(1).plan(1).parts();
        assertThrows(IllegalArgumentException.class, () -> new CheckpointPlan(offloaded, false));
        assertThrows(IllegalArgumentException.class, () -> new CheckpointPlan.RecomputedBlocks(offloaded));
        assertEquals(
                CheckpointPolicy.elementwise(0).plan(3),
                CheckpointPolicy.offloading(2).plan(3).withoutOffloading());
        List<CheckpointPlan.PlanPart> kept =
                CheckpointPolicy.everything().plan(1).parts();
        assertThrows(IllegalArgumentException.class, () -> {
            var parts = new ArrayList<>(CheckpointPolicy.blocks(2).plan(2).parts());
            parts.addAll(kept);
            new CheckpointPlan(parts, true);
        });
        assertThrows(IllegalArgumentException.class, () -> new BlockBytes(10, 5, 6, 0, 0));
        assertThrows(IllegalArgumentException.class, () -> new BlockBytes(10, 5, 2, 4, 0)); // 3 in attention
        assertThrows(
                IllegalArgumentException.class, () -> new BlockBytes(10, 5, 2, 6, 6)); // 5 in the feed-forward layer
    }
}
