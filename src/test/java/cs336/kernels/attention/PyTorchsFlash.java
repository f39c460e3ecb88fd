package cs336.kernels.attention;

import cs336.basics.Attention;
import cs336.torch.AtenOperator;
import cs336.torch.MemoryScope;
import org.bytedeco.pytorch.Tensor;

/**
 * PyTorch's FlashAttention-2 on a card, for 16-bit tensors [B, H, T, d]. What PyTorch picks by itself may be another
 * kernel: on Hopper it is cuDNN's where that is new enough.
 */
final class PyTorchsFlash implements Attention {
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
