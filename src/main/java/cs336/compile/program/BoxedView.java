package cs336.compile.program;

import cs336.compile.program.Argument.View;
import cs336.torch.AtenOperator;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import org.bytedeco.pytorch.GenericList;
import org.bytedeco.pytorch.IValue;
import org.bytedeco.pytorch.IValueVector;
import org.bytedeco.pytorch.ListType;

/**
 * The arguments of {@code as_strided} that read a value in the layout of a view, boxed once for all runs of a program.
 *
 * @param size int64 list
 * @param stride int64 list, in elements
 * @param offset int64, in elements from the start of the storage
 */
record BoxedView(IValue size, IValue stride, IValue offset) {
    private static final AtenOperator AS_STRIDED = AtenOperator.of("aten::as_strided", "");
    private static final int ARGUMENTS = 4;

    /** Returns null if the value or the view is complex. */
    static BoxedView of(View view) {
        Layout want = view.layout();
        if (view.value().dtype() == DType.COMPLEX64 || want.dtype() == DType.COMPLEX64) {
            return null;
        }
        try (var scope = MemoryScope.open()) {
            return new BoxedView(list(want.shape()), list(want.strides()), MemoryScope.keep(new IValue(want.offset())));
        }
    }

    private static IValue list(long... numbers) {
        var list = new GenericList(ListType.ofInts().containedType(0));
        for (long number : numbers) {
            list.push_back(new IValue(number));
        }
        return MemoryScope.keep(new IValue(list));
    }

    /**
     * Puts the view of a tensor on a stack.
     *
     * @param tensor a tensor whose storage offset is that of its value's layout
     * @param work an empty stack, which is empty again afterwards
     * @param stack receives the view at {@code index}
     */
    void put(IValue tensor, IValueVector work, IValueVector stack, long index) {
        work.resize(ARGUMENTS);
        work.put(0, tensor);
        work.put(1, size);
        work.put(2, stride);
        work.put(3, offset);
        AS_STRIDED.callBoxed(work);
        stack.put(index, work.get(0));
        work.resize(0);
    }
}
