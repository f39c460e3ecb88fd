package cs336.kernels.attention;

import java.util.List;
import org.bytedeco.pytorch.Tensor;

/** The results of both passes of attention. */
record FlashResult(Tensor o, Tensor l, Tensor dQ, Tensor dK, Tensor dV) {
    static final List<String> NAMES = List.of("O", "L", "dQ", "dK", "dV");

    /** Returns the tensors in the order of {@link #NAMES}. */
    List<Tensor> tensors() {
        return List.of(o, l, dQ, dK, dV);
    }

    /** Computes both passes with a variant. */
    static FlashResult of(FlashVariant variant, FlashInputs x, boolean causal) {
        FlashVariant.AttentionOutput output = variant.forward(x.q(), x.k(), x.v(), causal);
        FlashVariant.AttentionGradients gradients =
                variant.backward(x.q(), x.k(), x.v(), output.o(), output.l(), x.dO(), causal);
        return new FlashResult(output.o(), output.l(), gradients.dQ(), gradients.dK(), gradients.dV());
    }
}
