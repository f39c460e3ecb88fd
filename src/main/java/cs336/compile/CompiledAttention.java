package cs336.compile;

import cs336.basics.Attention;
import cs336.basics.PlainAttention;
import org.bytedeco.pytorch.Tensor;

/**
 * {@link PlainAttention} compiled, under the name {@code plain-compiled}. It still stores all scores, but on a GPU
 * generated kernels scale, mask and normalize them.
 */
public final class CompiledAttention implements Attention {
    private final PlainAttention plain = new PlainAttention();
    private Compiled full = compiled(false);
    private Compiled causal = compiled(true);

    private Compiled compiled(boolean isCausal) {
        return Compiled.of(in -> new Tensor[] {plain.apply(in[0], in[1], in[2], isCausal)})
                .keepAttention();
    }

    @Override
    public String name() {
        return "plain-compiled";
    }

    @Override
    public Tensor apply(Tensor q, Tensor k, Tensor v, boolean isCausal) {
        Attention.requireInputs(q, k, v);
        return (isCausal ? causal : full).apply(q, k, v)[0];
    }

    @Override
    public void freeCache() {
        full.close();
        causal.close();
        plain.freeCache();
        full = compiled(false);
        causal = compiled(true);
    }
}
