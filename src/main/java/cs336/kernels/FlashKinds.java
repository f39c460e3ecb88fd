package cs336.kernels;

import cs336.basics.Attention;
import org.bytedeco.pytorch.Tensor;

/** {@link FlashAttention} in each of its forms, by names of their own, to set one beside the other. */
public final class FlashKinds {
    private FlashKinds() {}

    private abstract static class InForm implements Attention {
        private final String name;
        private final FlashForm form;

        InForm(String name, FlashForm form) {
            this.name = name;
            this.form = form;
        }

        @Override
        public String name() {
            return name;
        }

        @Override
        public Tensor apply(Tensor q, Tensor k, Tensor v, boolean causal) {
            return FlashAttention.apply(q, k, v, causal, form);
        }
    }

    /** {@link TiledFlash} under the name {@code flash-tiled}. */
    public static final class Tiled extends InForm {
        public Tiled() {
            super("flash-tiled", TiledFlash.DEFAULT);
        }
    }

    /** {@link FirstFlash} under the name {@code flash-first}. */
    public static final class First extends InForm {
        public First() {
            super("flash-first", new FirstFlash());
        }
    }
}
