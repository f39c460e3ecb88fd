package cs336.compile.fuse;

import cs336.compile.program.Argument.View;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.TensorOperator;
import cs336.torch.DType;
import cs336.torch.Device;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.function.Function;
import org.bytedeco.pytorch.ScalarTypeOptional;
import org.bytedeco.pytorch.Tensor;

/**
 * An operator that reduces dimensions of its argument. It accumulates in fp32, or in fp64 for fp64, and rounds the
 * result once.
 *
 * @param kind the operation that combines two elements
 * @param dims the reduced dimensions of the argument, ascending
 */
record ReductionOperator(ReductionKind kind, List<Integer> dims) implements TensorOperator {
    enum ReductionKind {
        SUM,
        MAX
    }

    @Override
    public List<Tensor> run(Operation operation, Function<View, Tensor> read, Device device) {
        Layout out = operation.output().layout();
        DType compute = PointwiseOperator.computeType(operation);
        Tensor in = read.apply(operation.view(0)).to(compute.scalarType());
        long[] reduced = dims.stream().mapToLong(Integer::longValue).toArray();
        Tensor value =
                kind == ReductionKind.SUM ? in.sum(reduced, true, new ScalarTypeOptional()) : in.amax(reduced, true);
        Tensor result = out.empty(device);
        result.copy_(value.reshape(out.shape()));
        return List.of(result);
    }

    /**
     * Returns whether there is one result per row: the reduced dimensions are the innermost ones in the storage order
     * of the input.
     */
    boolean isPerRow(Layout input) {
        int[] order = input.storageOrder();
        return Arrays.stream(order, order.length - dims.size(), order.length).allMatch(dims::contains);
    }

    /**
     * Returns the dimensions of the input from the slowest to the fastest in the iterations of the kernel: kept ones
     * first if rows are reduced, otherwise reduced ones first; each from the largest stride to the smallest.
     */
    int[] iterationOrder(Layout input) {
        boolean keptFirst = isPerRow(input);
        return Arrays.stream(input.storageOrder())
                .boxed()
                .sorted(Comparator.comparing(dim -> dims.contains(dim) == keptFirst))
                .mapToInt(Integer::intValue)
                .toArray();
    }

    /**
     * Returns the kept dimensions in {@link #iterationOrder}, as dimensions of a result of this rank: with the reduced
     * dimensions, or without them.
     */
    int[] resultOrder(Layout input, int rank) {
        boolean hasReduced = rank == input.shape().length;
        return Arrays.stream(iterationOrder(input))
                .filter(dim -> !dims.contains(dim))
                .map(dim -> hasReduced
                        ? dim
                        : dim - (int) dims.stream().filter(d -> d < dim).count())
                .toArray();
    }

    @Override
    public String toString() {
        return kind.name().toLowerCase(Locale.ROOT) + dims;
    }
}
