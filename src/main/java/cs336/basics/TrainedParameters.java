package cs336.basics;

import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/** What optimizers ask of their parameters. */
final class TrainedParameters {
    private TrainedParameters() {}

    /** Handles of our own to the same tensors, out of every memory scope. */
    static Map<String, Tensor> of(Map<String, Tensor> named) {
        Map<String, Tensor> parameters = new LinkedHashMap<>();
        named.forEach((name, tensor) -> {
            if (!tensor.defined() || !tensor.is_floating_point()) {
                throw new IllegalArgumentException("parameter " + name + " must be a floating-point tensor");
            }
            if (!tensor.is_contiguous()) {
                throw new IllegalArgumentException("parameter " + name + " must be contiguous");
            }
            parameters.put(name, MemoryScope.keep(new Tensor(tensor)));
        });
        return Collections.unmodifiableMap(parameters);
    }

    /** The gradient if the parameter is to be updated, else null. In the caller's memory scope. */
    static Tensor gradient(Tensor parameter) {
        Tensor gradient = parameter.grad();
        if (!gradient.defined() || !parameter.requires_grad()) {
            return null;
        }
        // Kernels over many tensors run along raw memory.
        return gradient.is_contiguous() ? gradient : gradient.contiguous();
    }

    /** Checks that a tensor of a saved state fits its parameter. */
    static void requireLike(String name, Tensor saved, Tensor parameter) {
        long[] shape = Tensors.shape(saved);
        if (!Arrays.equals(shape, Tensors.shape(parameter)) || DType.of(saved) != DType.of(parameter)) {
            throw new IllegalArgumentException("state " + name + " is " + DType.of(saved) + Arrays.toString(shape)
                    + ", but the parameter is " + DType.of(parameter) + Arrays.toString(Tensors.shape(parameter)));
        }
    }

    static double requireRate(String name, double rate) {
        if (!(rate >= 0 && rate < Double.POSITIVE_INFINITY)) {
            throw new IllegalArgumentException(name + " must be finite and at least 0, not " + rate);
        }
        return rate;
    }
}
