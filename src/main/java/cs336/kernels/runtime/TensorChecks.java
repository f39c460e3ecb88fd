package cs336.kernels.runtime;

import cs336.torch.DType;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;

/** Checks of tensor arguments, made before native code receives their addresses. */
public final class TensorChecks {
    /** The dtypes that kernels support. */
    public static final Set<DType> KERNEL_TYPES = EnumSet.of(DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16);

    /** The dtypes that tensor operations support: those of kernels, and fp64. */
    public static final Set<DType> FLOATING = EnumSet.of(DType.FLOAT64, DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16);

    private TensorChecks() {}

    /**
     * Checks that a tensor has one of the allowed dtypes, and returns its dtype.
     *
     * @param name name of the argument, for the message
     * @throws IllegalArgumentException if the tensor is missing or has another dtype
     */
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
                    name + " must be a tensor, not " + (tensor == null ? "null" : "a closed or undefined tensor"));
        }
    }

    /**
     * Checks that a vector is as long as the last dimension of another tensor, and on the same device.
     *
     * @param name name of the vector, for the message
     * @param ofName name of the other tensor, for the message
     * @throws IllegalArgumentException if it is not
     */
    public static void vectorFor(String name, Tensor vector, String ofName, Tensor of) {
        tensor(name, vector);
        if (of.dim() < 1 || of.size(-1) < 1) {
            throw new IllegalArgumentException(ofName + " must have a last dimension of at least 1, not the shape "
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

    /** Returns whether two tensors are on the same device. */
    public static boolean oneDevice(Tensor a, Tensor b) {
        if (a.is_cuda() && b.is_cuda()) {
            return Driver.deviceIndex(a) == Driver.deviceIndex(b);
        }
        return !a.is_cuda() && !b.is_cuda() && a.is_cpu() == b.is_cpu();
    }

    private static String device(Tensor tensor) {
        return tensor.is_cuda() ? "cuda:" + Driver.deviceIndex(tensor) : "cpu";
    }
}
