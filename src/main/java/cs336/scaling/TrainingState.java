package cs336.scaling;

import cs336.torch.DType;
import cs336.units.Bytes;
import java.util.List;

/**
 * The copies of all parameters that mixed-precision training with AdamW keeps from step to step, each with its type,
 * and the type in which weights and gradients travel.
 *
 * @param weights the master weights that the optimizer updates
 * @param gradients the accumulated gradients
 * @param firstMoment AdamW's running mean of gradients
 * @param secondMoment AdamW's running mean of their squares
 * @param sent weights when they are gathered and gradients when they are reduced; also what products are computed in
 */
public record TrainingState(DType weights, DType gradients, DType firstMoment, DType secondMoment, DType sent) {
    /**
     * All four copies in fp32, everything computed and sent in bf16: the setting of {@code communication_accounting}.
     */
    public static final TrainingState MIXED =
            new TrainingState(DType.FLOAT32, DType.FLOAT32, DType.FLOAT32, DType.FLOAT32, DType.BFLOAT16);

    /** All in fp32: the setting of our data-parallel measurements. */
    public static final TrainingState SINGLE =
            new TrainingState(DType.FLOAT32, DType.FLOAT32, DType.FLOAT32, DType.FLOAT32, DType.FLOAT32);

    /**
     * The copies of so many parameters, by name: four, not five, for the bf16 weights are made from the master copy and
     * freed.
     */
    public List<TensorMemory> tensors(long parameters) {
        return List.of(
                new TensorMemory("master weights", "P", weights, 1, parameters),
                new TensorMemory("accumulated gradients", "P", gradients, 1, parameters),
                new TensorMemory("AdamW: first moment", "P", firstMoment, 1, parameters),
                new TensorMemory("AdamW: second moment", "P", secondMoment, 1, parameters));
    }

    /** All copies together. */
    public Bytes bytes(long parameters) {
        return new Bytes(
                tensors(parameters).stream().mapToLong(TensorMemory::bytes).sum());
    }

    /** Of all copies: 16 where all four are fp32. */
    public int bytesPerParameter() {
        return weights.bytes() + gradients.bytes() + firstMoment.bytes() + secondMoment.bytes();
    }
}
