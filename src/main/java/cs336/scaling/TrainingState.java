package cs336.scaling;

import cs336.scaling.memory.MemoryInventory;
import cs336.scaling.memory.TensorMemory;
import cs336.torch.DType;
import cs336.units.Bytes;
import java.util.List;

/**
 * The types of the tensors that mixed-precision training with AdamW keeps from step to step, and the type in which
 * weights and gradients are sent.
 *
 * @param weights master weights that the optimizer updates
 * @param gradients accumulated gradients
 * @param firstMoment AdamW's running mean of gradients
 * @param secondMoment AdamW's running mean of squared gradients
 * @param sent type of the matmuls, of the weights that are all-gathered and of the gradients that are reduced
 */
public record TrainingState(DType weights, DType gradients, DType firstMoment, DType secondMoment, DType sent) {
    /** State in fp32, compute and communication in bf16: the setting of {@code communication_accounting}. */
    public static final TrainingState MIXED =
            new TrainingState(DType.FLOAT32, DType.FLOAT32, DType.FLOAT32, DType.FLOAT32, DType.BFLOAT16);

    /** Everything in fp32: the setting of the data-parallel measurements. */
    public static final TrainingState SINGLE =
            new TrainingState(DType.FLOAT32, DType.FLOAT32, DType.FLOAT32, DType.FLOAT32, DType.FLOAT32);

    /**
     * Returns the tensors of the state for a number of parameters. The bf16 weights are not among them: they are cast
     * from the master weights and freed.
     */
    public List<TensorMemory> tensors(long parameters) {
        return List.of(
                new TensorMemory("master weights", "P", weights, 1, parameters),
                new TensorMemory("accumulated gradients", "P", gradients, 1, parameters),
                new TensorMemory("AdamW: first moment", "P", firstMoment, 1, parameters),
                new TensorMemory("AdamW: second moment", "P", secondMoment, 1, parameters));
    }

    /** Returns the size of the state for a number of parameters. */
    public Bytes bytes(long parameters) {
        return new Bytes(MemoryInventory.bytes(tensors(parameters)));
    }

    /** Returns the bytes of state per parameter: 16 if all four tensors are fp32. */
    public int bytesPerParameter() {
        return weights.bytes() + gradients.bytes() + firstMoment.bytes() + secondMoment.bytes();
    }
}
