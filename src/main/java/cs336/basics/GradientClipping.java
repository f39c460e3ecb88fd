package cs336.basics;

import cs336.torch.AtenOperator;
import cs336.torch.AtenOperator.TensorList;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.ShardedParameters;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;

/** Gradient clipping by global norm, as {@code torch.nn.utils.clip_grad_norm_} does. */
public final class GradientClipping {
    private static final double EPS = 1e-6;
    private static final AtenOperator FOREACH_NORM = AtenOperator.of("aten::_foreach_norm", "Scalar");
    private static final AtenOperator FOREACH_MUL = AtenOperator.of("aten::_foreach_mul_", "Tensor");

    private GradientClipping() {}

    /**
     * Multiplies all gradients by {@code maxNorm} / (norm + 10⁻⁶) if their global L2 norm exceeds {@code maxNorm}.
     * Works in place, with a few kernels, and without a device synchronization.
     *
     * @param parameters parameters on one device; those without a gradient are ignored
     * @param maxNorm the largest allowed norm, above 0
     * @return the norm before clipping, a 0-dimensional tensor in the caller's memory scope; reading its value
     *     synchronizes with the device
     * @throws IllegalArgumentException if {@code maxNorm} is not above 0, or a parameter is sharded
     */
    public static Tensor clipByGlobalNorm(Iterable<Tensor> parameters, double maxNorm) {
        requireAboveZero(maxNorm);
        try (var scope = MemoryScope.open()) {
            Tensor norm = norm(parameters);
            clip(parameters, norm, maxNorm);
            return scope.escape(norm);
        }
    }

    /**
     * Returns the global L2 norm of the gradients.
     *
     * @param parameters parameters on one device; those without a gradient are ignored
     * @return a 0-dimensional tensor in the caller's memory scope, fp32 if gradients have 16 bits; zero on the CPU if
     *     there is no gradient
     * @throws IllegalArgumentException if a parameter is sharded
     */
    public static Tensor norm(Iterable<Tensor> parameters) {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            List<Tensor> gradients = gradients(parameters);
            if (gradients.isEmpty()) {
                return scope.escape(torch.zeros());
            }
            List<Tensor> norms = new ArrayList<>();
            Map<DType, List<Tensor>> byType = gradients.stream()
                    .collect(Collectors.groupingBy(DType::of, () -> new EnumMap<>(DType.class), Collectors.toList()));
            byType.forEach(
                    (dtype, ofType) -> { // for a list of several dtypes, the operator launches a kernel per tensor
                        try (var list = TensorList.of(ofType)) {
                            // A sum of squares easily overflows fp16.
                            boolean narrow = dtype.bytes() < Float.BYTES;
                            norms.addAll(
                                    FOREACH_NORM.call(list, 2.0, narrow ? Long.valueOf(ScalarType.Float.value) : null));
                        }
                    });
            return scope.escape(
                    torch.stack(new TensorVector(norms.toArray(new Tensor[0]))).norm());
        }
    }

    /**
     * Returns the factor that clips gradients of this norm: {@code maxNorm} / (norm + 10⁻⁶) if {@code norm} exceeds
     * {@code maxNorm}, otherwise 1. It is NaN if the norm is NaN, as in PyTorch. Does not synchronize with the device.
     *
     * @param norm a 0-dimensional tensor
     * @param maxNorm the largest allowed norm, above 0
     * @return a 0-dimensional tensor in the caller's memory scope
     * @throws IllegalArgumentException if {@code maxNorm} is not above 0, or the norm is not a floating-point tensor
     *     without dimensions
     */
    public static Tensor factor(Tensor norm, double maxNorm) {
        requireAboveZero(maxNorm);
        Tensors.requireFloating("norm", norm);
        if (norm.dim() != 0) {
            throw new IllegalArgumentException(
                    "norm must be 0-dimensional, not " + Arrays.toString(Tensors.shape(norm)));
        }
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Tensor shrunk = torch.ones_like(norm).mul_(new Scalar(maxNorm)).div_(norm.add(new Scalar(EPS)));
            return scope.escape(torch.where(norm.le(new Scalar(maxNorm)), torch.ones_like(norm), shrunk));
        }
    }

    /**
     * Multiplies gradients by {@code maxNorm} / (norm + 10⁻⁶) if {@code norm} exceeds {@code maxNorm}. The norm may
     * include gradients on other ranks. Works in place, with a few kernels, and without a device synchronization.
     *
     * @param parameters parameters on one device; those without a gradient are ignored
     * @param norm a 0-dimensional floating-point tensor on the same device
     * @param maxNorm the largest allowed norm, above 0
     * @throws IllegalArgumentException if {@code maxNorm} is not above 0, or a parameter is sharded
     */
    public static void clip(Iterable<Tensor> parameters, Tensor norm, double maxNorm) {
        requireAboveZero(maxNorm);
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            List<Tensor> gradients = gradients(parameters);
            if (gradients.isEmpty()) {
                return;
            }
            try (var list = TensorList.of(gradients)) {
                FOREACH_MUL.call(list, factor(norm, maxNorm));
            }
        }
    }

    private static List<Tensor> gradients(Iterable<Tensor> parameters) {
        List<Tensor> gradients = new ArrayList<>();
        for (Tensor parameter : parameters) {
            Tensors.requireDefined("parameter", parameter);
            ShardedParameters.requireUnsharded("parameter", parameter);
            Tensor gradient = parameter.grad();
            if (gradient.defined()) {
                gradients.add(gradient);
            }
        }
        return gradients;
    }

    /**
     * Checks the largest allowed norm.
     *
     * @throws IllegalArgumentException if {@code maxNorm} is not above 0
     */
    public static void requireAboveZero(double maxNorm) {
        if (!(maxNorm > 0)) {
            throw new IllegalArgumentException("maxNorm must be above 0, not " + maxNorm);
        }
    }
}
