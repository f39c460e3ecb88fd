package cs336.distributed.collectives;

import cs336.torch.DType;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.bytedeco.pytorch.Tensor;

/**
 * What one rank asks for in one collective; all ranks must ask for the same.
 *
 * @param operation with its reduction or root, as in {@code all-reduce (sum)}
 * @param shape of what each rank gives; of what each gets in a reduce-scatter
 */
public record CollectiveCall(String operation, DType dtype, List<Long> shape) {
    static CollectiveCall of(String operation, Tensor tensor) {
        List<Long> shape = Arrays.stream(Tensors.shape(tensor)).boxed().toList();
        return new CollectiveCall(operation, DType.of(tensor), shape);
    }

    /** The same number in every JVM, which {@link #hashCode()} is not. */
    long fingerprint() {
        return 31L * (31L * operation.hashCode() + dtype.ordinal()) + shape.hashCode();
    }

    @Override
    public String toString() {
        String sizes = shape.stream().map(String::valueOf).collect(Collectors.joining(", ", "[", "]"));
        return operation + " of " + dtype + " " + sizes;
    }
}
