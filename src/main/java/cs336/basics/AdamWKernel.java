package cs336.basics;

import java.util.List;
import java.util.Optional;
import java.util.ServiceLoader;
import org.bytedeco.pytorch.Tensor;

/**
 * An implementation of AdamW's update of many tensors. Implementations are registered as services
 * ({@link ServiceLoader}). {@link AdamW} uses the first one that supports its tensors, and otherwise PyTorch's
 * {@code _fused_adamw_}.
 */
public interface AdamWKernel {
    /**
     * Prepares the update of these tensors. Their addresses must not change until the update is closed.
     *
     * @param tensors the parameters, moments and copies that each step updates
     * @return the update, or empty if this implementation does not support the tensors
     */
    Optional<AdamWUpdate> prepare(AdamWTensors tensors);

    /**
     * The tensors of an update. All lists have one element per parameter.
     *
     * @param parameters contiguous, of one dtype and device
     * @param m first moments, shaped like the parameters
     * @param v second moments, shaped like the parameters
     * @param copies bf16 or fp16, contiguous, shaped like the parameters: each step stores the updated parameter there,
     *     too; null for a parameter without a copy
     */
    record AdamWTensors(List<Tensor> parameters, List<Tensor> m, List<Tensor> v, List<Tensor> copies) {}

    /**
     * The scalars of one step, as PyTorch's AdamW defines them: p ← (1 − αλ) p − α / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) +
     * ε).
     *
     * @param step t, from 1
     * @param learningRate α
     * @param beta1 β₁, the decay rate of m
     * @param beta2 β₂, the decay rate of v
     * @param weightDecay λ
     * @param eps ε
     */
    record AdamWScalars(long step, double learningRate, double beta1, double beta2, double weightDecay, double eps) {}

    /** The update of a fixed list of parameters. */
    interface AdamWUpdate extends AutoCloseable {
        /**
         * Enqueues one step on the current stream: m, v and then the parameters.
         *
         * @param gradients contiguous floating-point tensors in the order of the parameters; they do not change
         * @param gradientFactor fp32 [], multiplies all gradients; null for 1
         */
        void step(List<Tensor> gradients, Tensor gradientFactor, AdamWScalars scalars);

        @Override
        void close();
    }

    /** Returns the update by the first service that supports these tensors, or by PyTorch. */
    static AdamWUpdate find(AdamWTensors tensors) {
        return Services.of(AdamWKernel.class)
                .flatMap(kernel -> kernel.prepare(tensors).stream())
                .findFirst()
                .orElseGet(() -> new PyTorchAdamW(tensors));
    }
}
