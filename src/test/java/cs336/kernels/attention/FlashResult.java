package cs336.kernels.attention;

import java.util.List;
import org.bytedeco.pytorch.Tensor;

/** What the two passes of an attention compute. */
record FlashResult(Tensor o, Tensor l, Tensor dQ, Tensor dK, Tensor dV) {
    static final List<String> NAMES = List.of("O", "L", "dQ", "dK", "dV");

    /** In the order of the names. */
    List<Tensor> tensors() {
        return List.of(o, l, dQ, dK, dV);
    }

    /** Computes both passes in one form. */
    static FlashResult of(FlashVariant form, FlashInputs x, boolean causal) {
        FlashVariant.Attended attended = form.forward(x.q(), x.k(), x.v(), causal);
        FlashVariant.Gradients gradients =
                form.backward(x.q(), x.k(), x.v(), attended.o(), attended.l(), x.dO(), causal);
        return new FlashResult(attended.o(), attended.l(), gradients.dQ(), gradients.dK(), gradients.dV());
    }
}
