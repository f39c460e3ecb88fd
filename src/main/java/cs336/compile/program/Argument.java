package cs336.compile.program;

import cs336.torch.DType;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.bytedeco.pytorch.IValue;

/** An argument of an operation. */
public sealed interface Argument {
    /**
     * A tensor.
     *
     * @param value the value that is read
     * @param layout the layout in which the value is read
     */
    record View(ProgramValue value, Layout layout) implements Argument {
        /** Creates a view that reads a value in the value's own layout. */
        public View(ProgramValue value) {
            this(value, value.layout());
        }

        /** Returns the dtype of the view. */
        public DType dtype() {
            return layout.dtype();
        }

        /** Returns the sizes of the dimensions of the view. */
        public long[] shape() {
            return layout.shape();
        }

        /** Returns whether the view reads the value in the value's own layout. */
        public boolean isWhole() {
            return layout.equals(value.layout());
        }

        /** Returns whether the view reads all elements of the value in their order in memory, in any shape. */
        public boolean readsAll() {
            Layout all = value.layout();
            return layout.isContiguous()
                    && all.isDense()
                    && layout.offset() == all.offset()
                    && layout.dtype() == all.dtype()
                    && layout.elements() == all.elements()
                    && !layout.conjugated();
        }

        /** Returns the view broadcast to a shape; see {@link Layout#broadcastTo}. */
        public View broadcastTo(long... shape) {
            return new View(value, layout.broadcastTo(shape));
        }

        /** Returns the view with its last two dimensions exchanged. */
        public View transposed() {
            int rank = shape().length;
            int[] order = new int[rank];
            Arrays.setAll(order, i -> i < rank - 2 ? i : 2 * rank - 3 - i);
            return new View(value, layout.permuted(order));
        }

        /**
         * Returns a view that reads the same elements as this view, but from the tensor whose copy this view reads.
         *
         * @param copy the layout of the copy
         * @param source the view that was copied, in the copy's shape
         * @return null if there is no such view; see {@link Layout#throughCopy}
         */
        public View throughCopy(Layout copy, View source) {
            Layout read = layout.throughCopy(copy, source.layout);
            return read == null ? null : new View(source.value, read);
        }

        @Override
        public String toString() {
            return isWhole() ? value.toString() : value + ":" + layout;
        }
    }

    /** A list of tensors. */
    record Views(List<View> views) implements Argument {
        @Override
        public String toString() {
            return views.toString();
        }
    }

    /**
     * An argument that is not a tensor.
     *
     * @param value a {@code Long}, {@code Double}, {@code Boolean}, {@code String}, {@code long[]}, or null for None;
     *     for other kinds the text of the value, or an object that equals only itself and prints the name of the kind
     * @param boxed the value for PyTorch's dispatcher; lives as long as the program
     */
    record Constant(Object value, IValue boxed) implements Argument {
        @Override
        public boolean equals(Object other) {
            return other instanceof Constant that && Objects.deepEquals(value, that.value);
        }

        @Override
        public int hashCode() {
            return value instanceof long[] numbers ? Arrays.hashCode(numbers) : Objects.hashCode(value);
        }

        @Override
        public String toString() {
            return value instanceof long[] numbers ? Arrays.toString(numbers) : String.valueOf(value);
        }
    }

    /** Returns this argument, which is a number. */
    default double number() {
        return ((Number) ((Constant) this).value).doubleValue();
    }

    /** Returns this argument, which is a whole number. */
    default long integer() {
        return ((Number) ((Constant) this).value).longValue();
    }

    /** Returns the tensors of this argument. */
    default List<View> tensors() {
        if (this instanceof View view) {
            return List.of(view);
        }
        return this instanceof Views list ? list.views() : List.of();
    }
}
