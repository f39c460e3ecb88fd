package cs336.distributed.bench;

import cs336.bench.ArgumentCheck;
import cs336.bench.Pass;
import cs336.distributed.training.Strategy;
import cs336.scaling.memory.MemoryInventory;
import cs336.scaling.memory.ModelMemory;
import cs336.scaling.memory.TensorMemory;
import cs336.scaling.memory.TensorMemory.TensorPurpose;
import cs336.torch.DType;
import cs336.units.IntegerMath;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * The predicted memory of a rank around the first step of data-parallel training in fp32, tensor by tensor, with a
 * whole or a sharded AdamW. Gradients are stored in buckets that exist from the start; see {@link Strategy#bucketed}.
 *
 * <p>P parameters on n ranks take 4P bytes for the parameters, 4P for the gradients and, after the first step, 8P for
 * AdamW's moments, or 8P/n if these are sharded. {@link ModelMemory} predicts everything else.
 *
 * @param model the memory of one rank's model and batch
 * @param ranks number of ranks n
 * @param sharded whether each rank holds 1/n of AdamW's moments
 * @param bucketBytes maximum bytes of gradients that wait to be copied into a bucket
 */
public record ShardedMemory(ModelMemory model, int ranks, boolean sharded, long bucketBytes) {
    /** @throws IllegalArgumentException if ranks is below 1 */
    public ShardedMemory {
        ArgumentCheck.atLeast("ranks", 1, ranks);
    }

    /** Returns the tensors after initialization, directly before the first optimizer step and directly after it. */
    public List<MemoryInventory> points() {
        List<TensorMemory> idle = model.idle();
        List<TensorMemory> initial = idle.stream()
                .filter(tensor -> !tensor.name().equals("token ids and targets")
                        && !tensor.name().equals("mask"))
                .toList();
        return List.of(
                new MemoryInventory("after initialization", plus(initial, gradients())),
                new MemoryInventory("before the first step", plus(idle, gradients())),
                new MemoryInventory("after the first step", plus(idle, gradients(), optimizerState())));
    }

    /** Returns the tensors at peak memory before each of the three {@link #points}, since the previous point. */
    public List<MemoryInventory> peaks() {
        MemoryInventory passes = model.candidates(Pass.FORWARD_BACKWARD).stream()
                .map(this::withBuckets)
                .max(Comparator.comparingLong(MemoryInventory::bytes))
                .orElseThrow();
        return List.of(points().get(0), passes, points().get(2));
    }

    /** Returns the tensors at the peak of a later step, whose passes run with the optimizer state in memory. */
    public MemoryInventory peakOfStep() {
        return model.candidates(Pass.FORWARD_BACKWARD).stream()
                .map(this::withBuckets)
                .map(passes -> new MemoryInventory(passes.name(), plus(passes.tensors(), optimizerState())))
                .max(Comparator.comparingLong(MemoryInventory::allocatedBytes))
                .orElseThrow();
    }

    private static List<TensorMemory> plus(List<TensorMemory> tensors, TensorMemory... more) {
        var all = new ArrayList<>(tensors);
        all.addAll(List.of(more));
        return all;
    }

    private MemoryInventory withBuckets(MemoryInventory inventory) {
        var tensors = new ArrayList<TensorMemory>();
        long bytes = 0;
        long largest = bucketBytes; // a larger gradient has a separate bucket
        for (TensorMemory tensor : inventory.tensors()) {
            if (tensor.purpose() == TensorPurpose.GRADIENTS) {
                bytes += tensor.bytes();
                largest = Math.max(largest, tensor.elements() * tensor.dtype().bytes());
            } else {
                tensors.add(tensor);
            }
        }
        tensors.add(gradients());
        tensors.add(fp32("gradients waiting for their bucket", "", Math.min(bytes, largest) / 4)
                .as(TensorPurpose.COMMUNICATION_BUFFERS));
        return new MemoryInventory(inventory.name(), tensors);
    }

    private long count() {
        return model.config().parameterCount();
    }

    private TensorMemory gradients() {
        return fp32("gradients, in buckets", "P", count()).as(TensorPurpose.GRADIENTS);
    }

    private TensorMemory optimizerState() {
        return (sharded
                        ? fp32("moments of AdamW, this rank's shard", "2P / n", IntegerMath.ceilDiv(2 * count(), ranks))
                        : fp32("moments of AdamW", "2P", 2 * count()))
                .as(TensorPurpose.OPTIMIZER_STATE);
    }

    private static TensorMemory fp32(String name, String shape, long numbers) {
        return new TensorMemory(name, shape, DType.FLOAT32, 1, numbers);
    }
}
