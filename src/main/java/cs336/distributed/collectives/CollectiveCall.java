package cs336.distributed.collectives;

import cs336.torch.DType;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.bytedeco.pytorch.Tensor;

/**
 * The signature of one collective; it must be the same on all ranks.
 *
 * @param operation name with its reduction or root, for example {@code all-reduce (sum)}
 * @param dtype the dtype of the tensors
 * @param shape the shape of one rank's input; in a reduce-scatter, of one rank's output; for several tensors, their
 *     total number of elements
 */
public record CollectiveCall(String operation, DType dtype, List<Long> shape) {
    static CollectiveCall of(String operation, Tensor tensor) {
        List<Long> shape = Arrays.stream(Tensors.shape(tensor)).boxed().toList();
        return new CollectiveCall(operation, DType.of(tensor), shape);
    }

    /**
     * Creates the signature of a collective of several tensors.
     *
     * @param tensors tensors of one dtype; the shape is their total number of elements
     */
    static CollectiveCall of(String operation, List<Tensor> tensors) {
        long elements = tensors.stream().mapToLong(Tensor::numel).sum();
        return new CollectiveCall(operation, DType.of(tensors.get(0)), List.of(elements));
    }

    /** Returns a hash that, unlike {@link #hashCode()}, is the same in every JVM. */
    long fingerprint() {
        return 31L * (31L * operation.hashCode() + dtype.ordinal()) + shape.hashCode();
    }

    @Override
    public String toString() {
        String sizes = shape.stream().map(String::valueOf).collect(Collectors.joining(", ", "[", "]"));
        return operation + " of " + dtype + " " + sizes;
    }
}
