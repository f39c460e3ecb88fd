package cs336.basics;

import java.util.Optional;
import java.util.ServiceLoader;
import org.bytedeco.pytorch.Tensor;

/**
 * A kernel for the rows of logits of a {@link LinearCrossEntropy}, which computes their losses and replaces them by
 * their gradients. Implementations are registered as services ({@link ServiceLoader}). Logits that none supports are
 * computed by operators of PyTorch.
 */
public interface CrossEntropyKernel {
    /** Returns whether the kernel supports these logits, [n, V]. */
    boolean supports(Tensor logits);

    /**
     * Queues the kernel on the current stream. It replaces the logits by softmax(logits) − onehot(targets).
     *
     * @param logits [n, V], supported
     * @param targets [n], int64, contiguous. With a target that is not from 0 to V − 1, the loss and the gradients of
     *     its row are NaN.
     * @return the cross-entropy of each row in nats, fp32 [n], in the caller's memory scope
     * @throws IllegalArgumentException if the targets have another shape, dtype or layout
     */
    Tensor replaceByGradients(Tensor logits, Tensor targets);

    /** Returns the first service that supports these logits. */
    static Optional<CrossEntropyKernel> find(Tensor logits) {
        return Services.of(CrossEntropyKernel.class)
                .filter(kernel -> kernel.supports(logits))
                .findFirst();
    }
}
