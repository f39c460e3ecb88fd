package cs336.compile.fuse;

import cs336.compile.program.Argument.View;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.Operator;
import cs336.compile.program.ProgramValue;
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
record Concatenation(int dim) implements Operator {
    /** A matrix, as a part of the row-major matrix {@code whole}. */
    record MatrixPart(ProgramValue whole, long offset, long rowLength, long wholeRowLength) {
        /**
         * Returns the layout in the whole matrix that reads the same elements as a view of the separate matrix, or null
         * if no strides describe it.
         *
         * @param view a view of a row-major matrix, in which the first element of the matrix has the offset
         *     {@code start}
         */
        Layout of(Layout view, long start) {
            long[] strides = view.strides().clone();
            long lastColumn = (view.offset() - start) % rowLength;
            for (int i = 0; i < strides.length; i++) {
                boolean isWithinRow = strides[i] % rowLength != 0;
                lastColumn += isWithinRow ? strides[i] * (view.shape()[i] - 1) : 0;
                strides[i] = isWithinRow ? strides[i] : strides[i] / rowLength * wholeRowLength;
            }
            long row = (view.offset() - start) / rowLength;
            long column = (view.offset() - start) % rowLength;
            return lastColumn < rowLength || rowLength == wholeRowLength
                    ? new Layout(
                            view.dtype(),
                            view.shape(),
                            strides,
                            offset + row * wholeRowLength + column,
                            view.conjugated())
                    : null;
        }

        /**
         * Returns the view of the whole matrix that reads the same elements as a view of the separate matrix, or null.
         */
        View of(View view) {
            Layout layout = of(view.layout(), view.value().layout().offset());
            return layout == null ? null : new View(whole, layout);
        }
    }

    /** Returns the positions of matrices with these layouts in the concatenated matrix. */
    List<MatrixPart> parts(ProgramValue whole, List<Layout> layouts) {
        List<MatrixPart> parts = new ArrayList<>();
        long wholeRowLength = whole.shape()[1];
        long offset = whole.layout().offset();
        for (Layout layout : layouts) {
            parts.add(new MatrixPart(whole, offset, layout.shape()[1], wholeRowLength));
            offset += dim == 0 ? layout.elements() : layout.shape()[1];
        }
        return parts;
    }

    /** Returns the layout of matrices of these layouts, concatenated. */
    Layout concatenated(List<Layout> layouts) {
        long[] shape = layouts.get(0).shape().clone();
        shape[dim] = layouts.stream().mapToLong(layout -> layout.shape()[dim]).sum();
        return Layout.contiguous(layouts.get(0).dtype(), shape);
    }

    @Override
    public String name() {
        return "cat";
    }

    @Override
    public List<Tensor> run(Operation operation, Function<View, Tensor> read) {
        return List.of(
                torch.cat(new TensorVector(operation.reads().stream().map(read).toArray(Tensor[]::new)), dim));
    }

    @Override
    public String toString() {
        return name() + "[" + dim + "]";
    }
}
