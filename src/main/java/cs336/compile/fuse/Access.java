package cs336.compile.fuse;

import cs336.compile.program.Argument.View;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.ProgramValue;
import java.util.ArrayList;
import java.util.List;

/**
 * The element of a view that an operation reads or writes, as a function of the index of an iteration. The iterations
 * of an operation have one index n; digit i of n, in the mixed radix of the dimensions, is multiplied by a stride.
 *
 * @param digits the dimensions from the slowest to the fastest, without those of size 1
 * @param offset the position of the first element
 */
record Access(List<Digit> digits, long offset) {
    /**
     * A dimension.
     *
     * @param place the product of the sizes of all faster dimensions
     * @param size the number of indices
     * @param stride the distance of two elements in the storage, in elements
     */
    record Digit(long place, long size, long stride) {}

    /** Returns the access of a layout whose dimensions, in this order, are those of the iteration. */
    static Access of(Layout layout, int[] order) {
        List<Digit> digits = new ArrayList<>();
        long place = 1;
        for (int i = order.length - 1; i >= 0; i--) {
            long size = layout.shape()[order[i]];
            if (size != 1) {
                digits.add(0, new Digit(place, size, layout.strides()[order[i]]));
            }
            place *= size;
        }
        return new Access(digits, layout.offset());
    }

    /** Returns the access by which an operation reads a view. */
    static Access of(Operation operation, View view) {
        int[] order = operation.operator() instanceof ReductionOperator reduction
                ? reduction.iterationOrder(operation.view(0).layout())
                : operation.output().layout().storageOrder();
        return of(view.layout(), order);
    }

    /** Returns the access by which an operation writes its output; the iterations of a reduction are its results. */
    static Access ofOutput(Operation operation) {
        Layout out = operation.output().layout();
        return operation.operator() instanceof ReductionOperator reduction
                ? of(out, reduction.resultOrder(operation.view(0).layout(), out.shape().length))
                : of(out, out.storageOrder());
    }

    /**
     * Returns the access by which the operation that computes an operand of a concatenation writes it to the result.
     */
    static Access ofOperand(Operation concatenation, ProgramValue operand) {
        List<View> operands = concatenation.reads();
        int i = operands.stream().map(View::value).toList().indexOf(operand);
        View part = ((Concatenation) concatenation.operator())
                .parts(concatenation.output(), operands)
                .get(i);
        Layout placed = Concatenation.inPart(new View(operand), part).layout();
        return of(placed, operand.layout().storageOrder()).joined();
    }

    /** Returns whether iteration n reads element n. */
    boolean isIdentity() {
        for (Digit digit : digits) { // a stream here takes 10% longer for all passes of a training step
            if (digit.stride() != digit.place()) {
                return false;
            }
        }
        return offset == 0;
    }

    /** Returns whether iteration n reads element n / columns. */
    boolean isOncePerRow(long columns) {
        return offset == 0
                && digits.stream()
                        .allMatch(digit -> digit.place() < columns
                                ? digit.stride() == 0 && columns % (digit.place() * digit.size()) == 0
                                : digit.stride() * columns == digit.place());
    }

    /** Returns whether all iterations read the same element. */
    boolean isScalar() {
        return digits.stream().allMatch(digit -> digit.stride() == 0);
    }

    /**
     * Splits the digit that spans columns and rows into one digit for each, or returns null if that is not possible.
     */
    Access splitAt(long columns) {
        List<Digit> split = new ArrayList<>();
        for (Digit digit : digits) {
            long end = digit.place() * digit.size();
            if (columns <= digit.place() || columns >= end) {
                split.add(digit);
            } else if (columns % digit.place() != 0 || end % columns != 0) {
                return null;
            } else {
                long within = columns / digit.place();
                split.add(new Digit(columns, end / columns, digit.stride() * within));
                split.add(new Digit(digit.place(), within, digit.stride()));
            }
        }
        return new Access(split, offset);
    }

    /** Returns this access with adjacent dimensions joined where their strides allow it. */
    Access joined() {
        List<Digit> joined = new ArrayList<>();
        for (Digit digit : digits) {
            Digit slower = joined.isEmpty() ? null : joined.get(joined.size() - 1);
            boolean adjacent = slower != null
                    && slower.place() == digit.place() * digit.size()
                    && slower.stride() == digit.stride() * digit.size();
            if (adjacent) {
                joined.set(joined.size() - 1, new Digit(digit.place(), slower.size() * digit.size(), digit.stride()));
            } else {
                joined.add(digit);
            }
        }
        return new Access(joined, offset);
    }

    /** Returns this access of a row as an access of the elements of rows with this many columns. */
    Access ofRows(long columns) {
        return new Access(
                digits.stream()
                        .map(digit -> new Digit(digit.place() * columns, digit.size(), digit.stride()))
                        .toList(),
                offset);
    }
}
