package cs336.distributed.bench;

import cs336.bench.ArgumentCheck;
import cs336.bench.Pass;
import cs336.distributed.training.Strategy;
import cs336.scaling.MemoryInventory;
import cs336.scaling.ModelMemory;
import cs336.scaling.TensorMemory;
import cs336.torch.DType;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * How much memory each rank of data-parallel training needs around its first step, copy by copy, in closed form, with
 * AdamW in fp32 whole or in shards. Gradients are in buckets, which are there from the start; see
 * {@link Strategy#bucketed}.
 *
 * <p>With P parameters on n ranks: 4P bytes of parameters, 4P of gradients, and after the first step 8P of moments, or
 * 8P/n where they are sharded. Everything else is {@link ModelMemory}'s.
 *
 * @param model of one rank, with its part of the batch
 * @param ranks n
 * @param sharded whether a rank has 1/n of the moments
 * @param bucketBytes of gradients that wait to be copied into a bucket, at most
 */
public record ShardedMemory(ModelMemory model, int ranks, boolean sharded, long bucketBytes) {
    private static final String GRADIENTS = "gradients of parameters";

    public ShardedMemory {
        ArgumentCheck.atLeast("ranks", 1, ranks);
    }

    /**
     * What is alive when model, wrapper and optimizer have been made, directly before the optimizer's first step, and
     * directly after it.
     */
    public List<MemoryInventory> moments() {
        List<TensorMemory> idle = model.idle();
        List<TensorMemory> made = idle.stream()
                .filter(copy -> !copy.name().equals("token ids and targets")
                        && !copy.name().equals("mask"))
                .toList();
        return List.of(
                new MemoryInventory("after initialisation", plus(made, gradients())),
                new MemoryInventory("before the first step", plus(idle, gradients())),
                new MemoryInventory("after the first step", plus(idle, gradients(), optimizerState())));
    }

    /**
     * When most is alive until the first of {@link #moments}, from there until the second, and from there until the
     * third.
     */
    public List<MemoryInventory> peaks() {
        MemoryInventory passes = model.candidates(Pass.FORWARD_BACKWARD).stream()
                .map(this::withBuckets)
                .max(Comparator.comparingLong(MemoryInventory::bytes))
                .orElseThrow();
        return List.of(moments().get(0), passes, moments().get(2));
    }

    private static List<TensorMemory> plus(List<TensorMemory> copies, TensorMemory... more) {
        var all = new ArrayList<>(copies);
        all.addAll(List.of(more));
        return all;
    }

    private MemoryInventory withBuckets(MemoryInventory moment) {
        var copies = new ArrayList<TensorMemory>();
        copies.add(gradients());
        for (TensorMemory copy : moment.tensors()) {
            boolean waiting = copy.name().equals(GRADIENTS);
            copies.add(
                    waiting
                            ? fp32(
                                    "gradients on their way into a bucket",
                                    "",
                                    Math.min(copy.elements(), bucketBytes / 4))
                            : copy);
        }
        return new MemoryInventory(moment.name(), copies);
    }

    private long count() {
        return model.config().parameterCount();
    }

    private TensorMemory gradients() {
        return fp32("gradients, in buckets", "P", count());
    }

    private TensorMemory optimizerState() {
        return sharded
                ? fp32("moments of AdamW, of this rank's share", "2P / n", (2 * count() + ranks - 1) / ranks)
                : fp32("moments of AdamW", "2P", 2 * count());
    }

    private static TensorMemory fp32(String name, String shape, long numbers) {
        return new TensorMemory(name, shape, DType.FLOAT32, 1, numbers);
    }
}
