package cs336.kernels.runtime;

import cs336.torch.DType;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;

/** What must hold of tensors before any native code sees their addresses. */
public final class TensorChecks {
    /** Types of elements that kernels read and write. */
    public static final Set<DType> KERNEL_TYPES = EnumSet.of(DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16);

    /** The same, and fp64, which tensor operations take. */
    public static final Set<DType> FLOATING = EnumSet.of(DType.FLOAT64, DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16);

    private TensorChecks() {}

    /** Returns the type. */
    public static DType type(String name, Tensor tensor, Set<DType> allowed) {
        tensor(name, tensor);
        DType type = DType.of(tensor);
        if (!allowed.contains(type)) {
            throw new IllegalArgumentException(name + " must be one of " + allowed + ", not " + type);
        }
        return type;
    }

    private static void tensor(String name, Tensor tensor) {
        if (tensor == null || tensor.isNull() || !tensor.defined()) {
            throw new IllegalArgumentException(
                    name + " must be a tensor, not " + (tensor == null ? "null" : "a closed or undefined one"));
        }
    }

    /** A vector as long as the rows of another tensor, on the same device. */
    public static void vectorFor(String name, Tensor vector, String ofName, Tensor of) {
        tensor(name, vector);
        if (of.dim() < 1 || of.size(-1) < 1) {
            throw new IllegalArgumentException(ofName + " must have a last dimension of at least 1; its shape is "
                    + Arrays.toString(Tensors.shape(of)));
        }
        if (vector.dim() != 1 || vector.size(0) != of.size(-1)) {
            throw new IllegalArgumentException(name + " must have the shape [" + of.size(-1) + "] for " + ofName + " "
                    + Arrays.toString(Tensors.shape(of)) + ", not " + Arrays.toString(Tensors.shape(vector)));
        }
        if (!oneDevice(vector, of)) {
            throw new IllegalArgumentException(
                    name + " is on " + device(vector) + ", but " + ofName + " is on " + device(of));
        }
    }

    /** Whether two tensors are on the same device. */
    public static boolean oneDevice(Tensor a, Tensor b) {
        if (a.is_cuda() && b.is_cuda()) return Driver.deviceIndex(a) == Driver.deviceIndex(b);
        return !a.is_cuda() && !b.is_cuda() && a.is_cpu() == b.is_cpu();
    }

    private static String device(Tensor tensor) {
        return tensor.is_cuda() ? "cuda:" + Driver.deviceIndex(tensor) : "cpu";
    }
}
