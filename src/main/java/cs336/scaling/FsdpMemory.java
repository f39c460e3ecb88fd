package cs336.scaling;

import cs336.units.Bytes;
import cs336.units.Tokens;

/**
 * The memory of a device when the state and a part of the activations are split among N devices and the rest of the
 * activations is whole on each, the setting of {@code communication_accounting} (b):
 *
 * <p>memory(N) = (s·P + f·A) / N + (1 − f)·A, with s bytes of state a parameter, A the bytes kept for the backward pass
 * and f the part of them that is split.
 *
 * @param model the model
 * @param state its copies
 * @param tokens whose activations are A: the batch of the group of N devices
 * @param splitActivations f, between 0 and 1: ½ for every second layer, 1 where each device keeps its own sequences
 *     only
 */
public record FsdpMemory(ModelShape model, TrainingState state, Tokens tokens, double splitActivations) {
    /** @throws IllegalArgumentException if f is not between 0 and 1 */
    public FsdpMemory {
        if (!(splitActivations >= 0 && splitActivations <= 1)) {
            throw new IllegalArgumentException("splitActivations must be between 0 and 1, not " + splitActivations);
        }
    }

    /** What is whole on each device, however many there are. */
    public Bytes whole() {
        return model.kept(tokens).times(1 - splitActivations);
    }

    /** What all devices hold together of the split part. */
    public Bytes split() {
        return state.bytes(model.parameters()).plus(model.kept(tokens).times(splitActivations));
    }

    /** memory(N), the largest share. */
    public Bytes perDevice(long n) {
        return split().sharedBy(n).plus(whole());
    }

    /**
     * The least N for which a device's memory is larger than memory(N).
     *
     * @throws IllegalArgumentException if what is whole on each device fills it alone
     */
    public long devicesToFit(Bytes memory) {
        long room = memory.count() - whole().count();
        if (room <= 1) {
            throw new IllegalArgumentException("tokens: of " + tokens + " each device keeps " + whole()
                    + ", and has only " + memory + "; no number of devices is enough");
        }
        return Math.max(1, -Math.floorDiv(-split().count(), room - 1));
    }

    /** The most tokens whose whole part leaves room on a device at all. */
    public Tokens limit(Bytes memory) {
        double perToken = model.keptPerToken().times(model.blocks()).count() * (1 - splitActivations);
        return new Tokens(perToken == 0 ? Long.MAX_VALUE : (long) (memory.count() / perToken));
    }
}
