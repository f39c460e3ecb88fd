package cs336.basics;

import cs336.torch.MemoryScope;
import org.bytedeco.pytorch.DoubleOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;

/**
 * PyTorch's {@code scaled_dot_product_attention}, which selects a fused kernel if one supports the dtype and device.
 * Registered under the name {@code sdpa}.
 */
public final class ScaledDotProductAttention implements Attention {
    @Override
    public String name() {
        return "sdpa";
    }

    @Override
    public Tensor apply(Tensor q, Tensor k, Tensor v, boolean causal) {
        Attention.requireInputs(q, k, v);
        try (var scope = MemoryScope.open()) {
            if (q.dim() == 4) {
                return scope.escape(attend(q, k, v, causal));
            }
            // PyTorch selects the fused kernels only for tensors with a head dimension.
            return scope.escape(attend(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1), causal)
                    .squeeze(1));
        }
    }

    private static Tensor attend(Tensor q, Tensor k, Tensor v, boolean causal) {
        boolean groupedQueries = false;
        double dropout = 0;
        return torch.scaled_dot_product_attention(
                q, k, v, new TensorOptional(), dropout, causal, new DoubleOptional(), groupedQueries);
    }
}
