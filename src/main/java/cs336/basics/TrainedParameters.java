package cs336.basics;

import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.ShardedParameters;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/** Checks of parameters and access to their gradients, shared by all optimizers. */
final class TrainedParameters {
    private TrainedParameters() {}

    /**
     * Returns new handles to the same tensors, outside of every memory scope.
     *
     * @throws IllegalArgumentException if a parameter is not a contiguous floating-point leaf, or two names have the
     *     same tensor, which each step would then update twice
     */
    static Map<String, Tensor> of(Map<String, Tensor> named) {
        Map<String, Tensor> parameters = new LinkedHashMap<>();
        requireDistinct(named);
        named.forEach((name, tensor) -> {
            if (!tensor.is_floating_point()) {
                throw new IllegalArgumentException("parameter " + name + " must be a floating-point tensor");
            }
            if (!tensor.is_leaf()) {
                throw new IllegalArgumentException("parameter " + name
                        + " must be a leaf: backward passes accumulate no gradient in a computed tensor; detach it");
            }
            if (!tensor.is_contiguous()) {
                throw new IllegalArgumentException("parameter " + name + " must be contiguous");
            }
            parameters.put(name, MemoryScope.keep(new Tensor(tensor)));
        });
        return Collections.unmodifiableMap(parameters);
    }

    /**
     * Checks that no tensor has two names.
     *
     * @throws IllegalArgumentException if a tensor is null, closed, undefined or sharded, or has two names
     */
    static void requireDistinct(Map<String, Tensor> named) {
        Map<Long, String> seen = new HashMap<>();
        try (var scope = MemoryScope.open()) {
            named.forEach((name, tensor) -> {
                Tensors.requireDefined("parameter " + name, tensor);
                ShardedParameters.requireUnsharded("parameter " + name, tensor);
                String other = seen.put(tensor.unsafeGetTensorImpl().address(), name);
                if (other != null) {
                    throw new IllegalArgumentException("parameters " + other + " and " + name + " are the same tensor");
                }
            });
        }
    }

    /**
     * Returns the gradient, contiguous and in the caller's memory scope; null if the parameter has none or does not
     * require one.
     */
    static Tensor gradient(Tensor parameter) {
        Tensor gradient = parameter.grad();
        if (!gradient.defined() || !parameter.requires_grad()) {
            return null;
        }
        // The foreach and fused kernels need contiguous memory.
        return gradient.is_contiguous() ? gradient : gradient.contiguous();
    }

    /** Checks that a tensor of a saved state has the shape and dtype of its parameter. */
    static void requireLike(String name, Tensor saved, Tensor parameter) {
        long[] shape = Tensors.shape(saved);
        if (!Arrays.equals(shape, Tensors.shape(parameter)) || DType.of(saved) != DType.of(parameter)) {
            throw new IllegalArgumentException("state " + name + " is " + DType.of(saved) + Arrays.toString(shape)
                    + ", but the parameter is " + DType.of(parameter) + Arrays.toString(Tensors.shape(parameter)));
        }
    }

    /** Checks that an optimizer is not closed. */
    static void requireOpen(boolean closed) {
        if (closed) {
            throw new IllegalStateException("this optimizer is closed");
        }
    }

    static double requireRate(String name, double rate) {
        if (!(rate >= 0 && rate < Double.POSITIVE_INFINITY)) {
            throw new IllegalArgumentException(name + " must be finite and at least 0, not " + rate);
        }
        return rate;
    }
}
