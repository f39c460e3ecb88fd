package cs336.basics;

import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.OperatorInterceptor;
import cs336.torch.ProfilerRange;
import cs336.torch.Tensors;
import java.util.Arrays;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;

/** Loss functions. */
public final class Losses {
    private Losses() {}

    /**
     * Returns the cross-entropy: the mean of −log softmax(logits)[target] over all tokens, in nats. Computed in fp32
     * (fp64 for fp64 logits) in the {@link ProfilerRange} {@code loss}.
     *
     * @param logits [..., vocabulary], any floating type
     * @param targets [...], int64, each from 0 to vocabulary − 1. On CUDA the values are not checked here, because that
     *     would synchronize with the device. There PyTorch leaves tokens with the target −100, its
     *     {@code ignore_index}, out of the mean, and a device assertion reports other targets out of range.
     * @return a 0-dimensional tensor in the caller's memory scope
     * @throws IllegalArgumentException if shapes or dtypes do not match, there is no token, or a target on the CPU is
     *     out of range
     */
    public static Tensor crossEntropy(Tensor logits, Tensor targets) {
        try (var range = ProfilerRange.of("loss");
                var scope = MemoryScope.open()) {
            requireMatching(logits, targets);
            long vocabulary = logits.size(-1);
            Tensor flat = logits.reshape(-1, vocabulary); // [tokens, vocabulary]
            if (DType.of(flat) != DType.FLOAT64) {
                flat = flat.to(ScalarType.Float);
            }
            return scope.escape(torch.cross_entropy(flat, targets.reshape(-1)));
        }
    }

    private static void requireMatching(Tensor logits, Tensor targets) {
        Tensors.requireFloating("logits", logits);
        requireTargets(Tensors.shape(logits), targets);
    }

    /**
     * Checks the targets of logits of this shape.
     *
     * @throws IllegalArgumentException if shapes or the dtype do not match, there is no token, or a target on the CPU
     *     is out of range
     */
    static void requireTargets(long[] outputs, Tensor targets) {
        Tensors.requireDefined("targets", targets);
        if (DType.of(targets) != DType.INT64) {
            throw new IllegalArgumentException("targets must be int64, not " + DType.of(targets));
        }
        long[] tokens = Tensors.shape(targets);
        if (outputs.length != tokens.length + 1
                || !Arrays.equals(Arrays.copyOf(outputs, tokens.length), tokens)
                || targets.numel() == 0) {
            throw new IllegalArgumentException("targets must have the shape of logits without the last dimension and at"
                    + " least one token; targets " + Arrays.toString(tokens) + ", logits "
                    + Arrays.toString(outputs));
        }
        if (!OperatorInterceptor.isActive()) { // a recorded program cannot read elements
            requireTokens("targets", targets, outputs[tokens.length]);
        }
    }

    /**
     * Checks that all token ids on the CPU are in the vocabulary. Does not read a GPU's memory, which would synchronize
     * with the device.
     *
     * @param name name of the argument in messages
     * @param vocabulary number of tokens
     * @throws IllegalArgumentException if the tensor is closed, or an id is below 0 or not below the number of tokens
     */
    public static void requireTokens(String name, Tensor ids, long vocabulary) {
        Tensors.requireDefined(name, ids);
        if (vocabulary == 0) {
            throw new IllegalArgumentException("the vocabulary of " + name + " must have at least one token; the weight"
                    + " of a sharded layer has no rows outside of its forward pass");
        }
        if (!ids.is_cpu() || ids.numel() == 0) {
            return;
        }
        try (var scope = MemoryScope.open()) {
            long least = ids.min().item_long();
            long most = ids.max().item_long();
            if (least < 0 || most >= vocabulary) {
                throw new IllegalArgumentException(name + " must be from 0 to " + (vocabulary - 1)
                        + ", the last token of the vocabulary, not from " + least + " to " + most);
            }
        }
    }
}
