package cs336.notebook;

import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.Locale;
import java.util.StringJoiner;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.Layout;
import org.bytedeco.pytorch.global.torch.ScalarType;

/**
 * A summary of a tensor: dtype, shape and device; range and mean; all values, or those of the corners if there are more
 * than a hundred.
 *
 * <p>Reductions run on the device and in the dtype of the tensor, or in a wider one if PyTorch cannot reduce it, such
 * as fp8. Only the values that are shown are copied to the host.
 */
final class TensorSummary {
    /** The largest number of values up to which a tensor is shown completely. */
    private static final int MOST_VALUES = 100;

    /** The number of values at each end of a dimension that are shown of a larger tensor. */
    private static final int EDGE = 3;

    /**
     * The largest number of dimensions whose corners are shown; of further leading dimensions only index 0 is shown.
     */
    private static final int MOST_DIMENSIONS = 3;

    private TensorSummary() {}

    static String of(Tensor tensor) {
        try (MemoryScope scope = MemoryScope.open()) {
            var text = new StringBuilder(headOf(tensor));
            if (!tensor.isNull()
                    && tensor.defined()
                    && tensor.numel() > 0
                    && !tensor.is_complex()
                    && tensor.layout().intern() == Layout.Strided
                    && !tensor.is_quantized()
                    && !tensor.is_meta()) {
                Tensor reducible = reducible(tensor.detach());
                boolean unsigned = tensor.scalar_type().intern() == ScalarType.UInt64;
                if (!unsigned) { // as an int64, a number from 2^63 on is negative
                    appendRange(reducible, text);
                }
                appendValues(reducible, unsigned, text);
            }
            return text.toString();
        }
    }

    /** Returns dtype, shape and device. */
    static String headOf(Tensor tensor) {
        if (tensor.isNull()) {
            return "Tensor, closed";
        }
        if (!tensor.defined()) {
            return "Tensor, undefined";
        }
        try (MemoryScope scope = MemoryScope.open()) {
            return "Tensor " + dtype(tensor) + " " + Arrays.toString(Tensors.shape(tensor)) + " on "
                    + tensor.device().str().getString() + (tensor.requires_grad() ? ", requires grad" : "");
        }
    }

    private static String dtype(Tensor tensor) {
        ScalarType type = tensor.scalar_type().intern();
        return Arrays.stream(DType.values())
                .filter(known -> known.scalarType() == type)
                .map(DType::shortName)
                .findFirst()
                .orElse(type.name());
    }

    /**
     * Returns the tensor, or if PyTorch cannot reduce its dtype, a copy in another one with the same values or bits.
     */
    private static Tensor reducible(Tensor tensor) {
        return switch (tensor.scalar_type().intern()) {
            case Float8_e4m3fn, Float8_e4m3fnuz, Float8_e5m2, Float8_e5m2fnuz, Float8_e8m0fnu ->
                tensor.to(ScalarType.Float);
            case UInt16, UInt32, UInt64 -> tensor.to(ScalarType.Long);
            default -> tensor;
        };
    }

    private static void appendRange(Tensor tensor, StringBuilder text) {
        if (tensor.numel() > 1) {
            Tensor distinct = withoutCopies(tensor);
            text.append("\nmin ")
                    .append(number(distinct.min()))
                    .append("  max ")
                    .append(number(distinct.max()));
            if (tensor.is_floating_point()) {
                text.append("  mean ").append(number(distinct.mean()));
            }
        }
    }

    /** Returns the tensor before it was expanded: with the same range and mean, but possibly far fewer elements. */
    private static Tensor withoutCopies(Tensor tensor) {
        Tensor distinct = tensor;
        for (int d = 0; d < tensor.dim(); d++) {
            if (tensor.stride(d) == 0) {
                distinct = distinct.narrow(d, 0, 1);
            }
        }
        return distinct;
    }

    private static void appendValues(Tensor tensor, boolean unsigned, StringBuilder text) {
        if (tensor.dim() == 0) {
            text.append("\nvalue ").append(onHost(tensor, true, unsigned)[0]);
            return;
        }
        Tensor shown = tensor;
        var where = new StringJoiner(", ", " [", ", …]");
        while (tensor.numel() > MOST_VALUES && shown.dim() > MOST_DIMENSIONS) {
            shown = shown.select(0, 0);
            where.add("0");
        }
        text.append(shown == tensor ? "\nvalues " : "\nvalues at" + where + " ");
        String indent = shown.dim() > 1 ? "\n" : "";
        boolean whole = tensor.numel() <= MOST_VALUES;
        append(onHost(shown, whole, unsigned), Tensors.shape(shown), 0, new int[1], whole, indent, text);
    }

    /** Returns the shown values as text, in row-major order. */
    private static String[] onHost(Tensor tensor, boolean whole, boolean unsigned) {
        Tensor corners = tensor;
        for (int d = 0; d < tensor.dim() && !whole; d++) {
            long size = tensor.size(d);
            if (size > 2 * EDGE) {
                var ends = new TensorVector(corners.narrow(d, 0, EDGE), corners.narrow(d, size - EDGE, EDGE));
                corners = torch.cat(ends, d);
            }
        }
        if (tensor.is_floating_point()) {
            double[] values = Tensors.toDoubles(corners);
            return Arrays.stream(values).mapToObj(TensorSummary::number).toArray(String[]::new);
        }
        boolean flags = tensor.scalar_type().intern() == ScalarType.Bool;
        return Arrays.stream(Tensors.toLongs(corners))
                .mapToObj(value -> flags
                        ? String.valueOf(value != 0)
                        : unsigned ? Long.toUnsignedString(value) : String.valueOf(value))
                .toArray(String[]::new);
    }

    private static void append(
            String[] values, long[] shape, int d, int[] next, boolean whole, String indent, StringBuilder text) {
        boolean innermost = d == shape.length - 1;
        String between = innermost ? ", " : "," + "\n".repeat(shape.length - 1 - d) + " ".repeat(d + 1);
        text.append(d == 0 ? indent : "").append('[');
        for (long i = 0; i < shape[d]; i++) {
            text.append(i == 0 ? "" : between);
            if (!whole && shape[d] > 2 * EDGE && i == EDGE) {
                text.append('…').append(between);
                i = shape[d] - EDGE;
            }
            if (innermost) {
                text.append(values[next[0]++]);
            } else {
                append(values, shape, d + 1, next, whole, indent, text);
            }
        }
        text.append(']');
    }

    private static String number(double value) {
        return String.format(Locale.ROOT, "%.4g", value);
    }

    private static String number(Tensor scalar) {
        Scalar value = scalar.item();
        if (scalar.scalar_type().intern() == ScalarType.Bool) {
            return String.valueOf(value.toLong() != 0);
        }
        return scalar.is_floating_point() ? number(value.toDouble()) : String.valueOf(value.toLong());
    }
}
