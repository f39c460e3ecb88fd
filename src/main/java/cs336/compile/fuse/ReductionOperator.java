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

    /** Returns the layout of a result with the reduced dimensions, of size 1, whether it has them already or not. */
    Layout withReducedDims(Layout out, int rank) {
        if (out.shape().length == rank) {
            return out;
        }
        long[] shape = new long[rank];
        long[] strides = new long[rank];
        int next = 0;
        for (int i = 0; i < rank; i++) {
            boolean isReduced = dims.contains(i);
            shape[i] = isReduced ? 1 : out.shape()[next];
            strides[i] = isReduced ? 1 : out.strides()[next++];
        }
        return new Layout(out.dtype(), shape, strides, out.offset(), false);
    }

    @Override
    public String toString() {
        return kind.name().toLowerCase(Locale.ROOT) + dims;
    }
}
