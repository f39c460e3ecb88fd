package cs336.kernels.attention;

import cs336.basics.Attention;
import cs336.torch.AtenOperator;
import cs336.torch.MemoryScope;
import org.bytedeco.pytorch.Tensor;

/**
 * PyTorch's FlashAttention-2 on a GPU, for 16-bit tensors [B, H, T, d]. PyTorch's own choice may be another kernel: on
 * Hopper it is cuDNN's if that is recent enough.
 */
final class PyTorchFlash implements Attention {
    private static final AtenOperator OPERATOR = AtenOperator.of("aten::_scaled_dot_product_flash_attention", "");

    @Override
    public String name() {
        return "sdpa-flash";
    }

    @Override
    public Tensor apply(Tensor q, Tensor k, Tensor v, boolean causal) {
        double dropout = 0;
        boolean debugMask = false;
        Double scale = null; // 1 / √d
        try (var scope = MemoryScope.open()) {
            return scope.escape(
                    OPERATOR.call(q, k, v, dropout, causal, debugMask, scale).get(0));
        }
    }
}
