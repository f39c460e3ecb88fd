package cs336.notebook;

import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.Locale;
import java.util.StringJoiner;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch.ScalarType;

/**
 * A summary of a tensor in three lines: dtype, shape and device; range and mean; first values.
 *
 * <p>Reductions run on the device and in the dtype of the tensor. Only single values are copied to the host.
 */
final class TensorSummary {
    private static final int MOST_VALUES = 8;

    private TensorSummary() {}

    static String of(Tensor tensor) {
        if (tensor.isNull()) {
            return "Tensor, closed";
        }
        if (!tensor.defined()) {
            return "Tensor, undefined";
        }
        try (MemoryScope scope = MemoryScope.open()) {
            var text = new StringBuilder("Tensor ");
            text.append(dtype(tensor)).append(' ').append(Arrays.toString(Tensors.shape(tensor)));
            text.append(" on ").append(tensor.device().str().getString());
            text.append(tensor.requires_grad() ? ", requires grad" : "");
            if (tensor.numel() > 0 && !tensor.is_complex() && !tensor.is_sparse() && !tensor.is_meta()) {
                appendRange(tensor.detach(), text);
                appendFirstRow(tensor.detach(), text);
            }
            return text.toString();
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

    private static void appendRange(Tensor tensor, StringBuilder text) {
        if (tensor.numel() > 1) {
            text.append("\nmin ").append(number(tensor.min())).append("  max ").append(number(tensor.max()));
            if (tensor.is_floating_point()) {
                text.append("  mean ").append(number(tensor.mean()));
            }
        }
    }

    private static void appendFirstRow(Tensor tensor, StringBuilder text) {
        Tensor row = tensor;
        while (row.dim() > 1) {
            row = row.select(0, 0);
        }
        if (row.dim() == 0) {
            text.append("\nvalue ").append(number(row));
            return;
        }
        var values = new StringJoiner(", ", "\n" + (tensor.dim() > 1 ? "first row" : "values") + " [", "]");
        for (long i = 0; i < Math.min(MOST_VALUES, row.size(0)); i++) {
            values.add(number(row.select(0, i)));
        }
        if (row.size(0) > MOST_VALUES) {
            values.add("…");
        }
        text.append(values);
    }

    private static String number(Tensor scalar) {
        Scalar value = scalar.item();
        if (scalar.scalar_type().intern() == ScalarType.Bool) {
            return String.valueOf(value.toLong() != 0);
        }
        return scalar.is_floating_point()
                ? String.format(Locale.ROOT, "%.4g", value.toDouble())
                : String.valueOf(value.toLong());
    }
}
