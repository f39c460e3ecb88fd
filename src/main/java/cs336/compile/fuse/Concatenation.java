package cs336.compile.fuse;

import cs336.compile.program.Argument.View;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.ProgramValue;
import cs336.compile.program.TensorOperator;
import cs336.torch.Device;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/**
 * An operator that concatenates row-major matrices.
 *
 * @param dim 0 to append rows, 1 to append columns
 */
record Concatenation(int dim) implements TensorOperator {
    /** Returns views of the concatenated matrix that read its parts, with {@code dim} 0 as vectors. */
    List<View> parts(ProgramValue whole, List<View> matrices) {
        List<View> parts = new ArrayList<>();
        long offset = whole.layout().offset();
        for (View matrix : matrices) {
            long[] shape = dim == 0 ? new long[] {matrix.layout().elements()} : matrix.shape();
            long[] strides = dim == 0 ? new long[] {1} : new long[] {whole.shape()[1], 1};
            parts.add(new View(whole, new Layout(whole.dtype(), shape, strides, offset, false)));
            offset += dim == 0 ? matrix.layout().elements() : matrix.shape()[1];
        }
        return parts;
    }

    /** Returns what a view of a separate row-major matrix reads if the matrix is this part, or null if no view does. */
    static View inPart(View view, View part) {
        long offset = view.value().layout().offset();
        return view.throughCopy(Layout.contiguous(part.dtype(), part.shape()).withOffset(offset), part);
    }

    /** Returns the layout of these matrices, concatenated. */
    Layout concatenated(List<View> matrices) {
        long[] shape = matrices.get(0).shape().clone();
        shape[dim] = matrices.stream().mapToLong(matrix -> matrix.shape()[dim]).sum();
        return Layout.contiguous(matrices.get(0).dtype(), shape);
    }

    @Override
    public List<Tensor> run(Operation operation, Function<View, Tensor> read, Device device) {
        return List.of(
                torch.cat(new TensorVector(operation.reads().stream().map(read).toArray(Tensor[]::new)), dim));
    }

    @Override
    public String toString() {
        return "cat[" + dim + "]";
    }
}
