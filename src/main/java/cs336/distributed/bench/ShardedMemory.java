package cs336.distributed.bench;

import cs336.bench.ArgumentCheck;
import cs336.bench.Pass;
import cs336.distributed.training.Strategy;
import cs336.scaling.ModelMemory;
import cs336.scaling.ModelMemory.Copy;
import cs336.scaling.ModelMemory.Moment;
import cs336.torch.DType;
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
 * @param bucketBytes largest size of the gradients that wait to be copied into a bucket
 */
public record ShardedMemory(ModelMemory model, int ranks, boolean sharded, long bucketBytes) {
    private static final String GRADIENTS = "gradients of parameters";

    /** @throws IllegalArgumentException if ranks is below 1 */
    public ShardedMemory {
        ArgumentCheck.atLeast("ranks", 1, ranks);
    }

    /** Returns the tensors after initialisation, directly before the first optimizer step and directly after it. */
    public List<Moment> moments() {
        List<Copy> idle = model.idle();
        List<Copy> made = idle.stream()
                .filter(copy -> !copy.name().equals("token ids and targets")
                        && !copy.name().equals("mask"))
                .toList();
        return List.of(
                new Moment("after initialisation", plus(made, gradients())),
                new Moment("before the first step", plus(idle, gradients())),
                new Moment("after the first step", plus(idle, gradients(), optimizerState())));
    }

    /** Returns the tensors at peak memory before each of the three {@link #moments}, since the previous one. */
    public List<Moment> peaks() {
        Moment passes = model.moments(Pass.FORWARD_BACKWARD).stream()
                .map(this::withBuckets)
                .max(Comparator.comparingLong(Moment::bytes))
                .orElseThrow();
        return List.of(moments().get(0), passes, moments().get(2));
    }

    private static List<Copy> plus(List<Copy> copies, Copy... more) {
        var all = new ArrayList<>(copies);
        all.addAll(List.of(more));
        return all;
    }

    private Moment withBuckets(Moment moment) {
        var copies = new ArrayList<Copy>();
        copies.add(gradients());
        for (Copy copy : moment.copies()) {
            boolean waiting = copy.name().equals(GRADIENTS);
            copies.add(
                    waiting
                            ? fp32("gradients waiting for their bucket", "", Math.min(copy.numbers(), bucketBytes / 4))
                            : copy);
        }
        return new Moment(moment.name(), copies);
    }

    private long count() {
        return model.config().parameterCount();
    }

    private Copy gradients() {
        return fp32("gradients, in buckets", "P", count());
    }

    private Copy optimizerState() {
        return sharded
                ? fp32("moments of AdamW, this rank's shard", "2P / n", (2 * count() + ranks - 1) / ranks)
                : fp32("moments of AdamW", "2P", 2 * count());
    }

    private static Copy fp32(String name, String shape, long numbers) {
        return new Copy(name, shape, DType.FLOAT32, 1, numbers);
    }
}
