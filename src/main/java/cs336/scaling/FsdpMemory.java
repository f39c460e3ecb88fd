package cs336.scaling;

import cs336.units.Bytes;
import cs336.units.IntegerMath;
import cs336.units.Tokens;

/**
 * The memory of a device if N devices shard the training state and a fraction of the activations. Each device holds the
 * other activations unsharded. This is the setting of {@code communication_accounting} (b).
 *
 * <p>memory(N) = (s·P + f·A) / N + (1 − f)·A, with s bytes of state per parameter, A bytes of activations kept for the
 * backward pass, and f the sharded fraction of them.
 *
 * @param model the model
 * @param state types of the training state
 * @param tokens tokens of the batch of all N devices, whose activations are A
 * @param shardedActivations f, between 0 and 1: ½ if half of the activations are sharded, 1 if each device keeps only
 *     its own sequences
 */
public record FsdpMemory(ModelShape model, TrainingState state, Tokens tokens, double shardedActivations) {
    /** @throws IllegalArgumentException if f is not between 0 and 1 */
    public FsdpMemory {
        if (!(shardedActivations >= 0 && shardedActivations <= 1)) {
            throw new IllegalArgumentException("shardedActivations must be between 0 and 1, not " + shardedActivations);
        }
    }

    /** Returns the bytes that each device holds unsharded, for any N. */
    public Bytes whole() {
        return model.kept(tokens).times(1 - shardedActivations);
    }

    /** Returns the sharded bytes of all devices together. */
    public Bytes split() {
        return state.bytes(model.parameters()).plus(model.kept(tokens).times(shardedActivations));
    }

    /** Returns memory(N), for the device with the largest shard. */
    public Bytes perDevice(long n) {
        return split().sharedBy(n).plus(whole());
    }

    /**
     * Returns the smallest N for which memory(N) is below the memory of a device.
     *
     * @throws IllegalArgumentException if {@link #whole} alone fills a device
     */
    public long devicesToFit(Bytes memory) {
        long room = memory.count() - whole().count();
        if (room <= 1) {
            throw new IllegalArgumentException("tokens must be at most " + limit(memory) + ", not " + tokens
                    + ": each device holds " + whole() + " of unsharded activations and has " + memory);
        }
        return Math.max(1, IntegerMath.ceilDiv(split().count(), room - 1));
    }

    /** Returns the most tokens for which {@link #whole} does not exceed the memory of a device. */
    public Tokens limit(Bytes memory) {
        double perToken = model.keptPerToken().times(model.blocks()).count() * (1 - shardedActivations);
        return new Tokens(perToken == 0 ? Long.MAX_VALUE : (long) (memory.count() / perToken));
    }
}
