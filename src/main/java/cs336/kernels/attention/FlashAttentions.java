package cs336.kernels.attention;

import cs336.basics.Attention;
import java.util.function.Function;
import org.bytedeco.pytorch.Tensor;

/**
 * {@link FlashAttention} under its names: in the form that suits the tensors, or in one form, to set it beside another.
 */
public final class FlashAttentions {
    private FlashAttentions() {}

    private abstract static class Named implements Attention {
        private final String name;
        private final Function<Tensor, FlashVariant> form;

        Named(String name, Function<Tensor, FlashVariant> form) {
            this.name = name;
            this.form = form;
        }

        Named(String name, FlashVariant form) {
            this(name, q -> form);
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

    /** The fastest form for the tensors, under the name {@code flash}. */
    public static final class Fastest extends Named {
        public Fastest() {
            super("flash", FlashVariant::of);
        }
    }

    /** The fastest form whose results all repeat bit for bit, under the name {@code flash-deterministic}. */
    public static final class Deterministic extends Named {
        public Deterministic() {
            super("flash-deterministic", q -> FlashVariant.of(q, true));
        }
    }

    /** {@link TiledFlash} under the name {@code flash-tiled}. */
    public static final class Tiled extends Named {
        public Tiled() {
            super("flash-tiled", TiledFlash.DEFAULT);
        }
    }

    /** {@link FirstFlash} under the name {@code flash-first}. */
    public static final class First extends Named {
        public First() {
            super("flash-first", new FirstFlash());
        }
    }

    /** {@link MmaFlash}, for bf16 and fp16 above all, under the name {@code flash-mma}. */
    public static final class Mma extends Named {
        public Mma() {
            super("flash-mma", new MmaFlash(MmaFlash.Products.TF32_X3));
        }
    }

    /** {@link MmaFlash} with fp32 as TF32, under the name {@code flash-tf32}. */
    public static final class Tf32 extends Named {
        public Tf32() {
            super("flash-tf32", new MmaFlash(MmaFlash.Products.TF32));
        }
    }

    /** {@link MmaFlash} with fp32 as sums of two TF32 numbers, under the name {@code flash-3xtf32}. */
    public static final class ThreeTimesTf32 extends Named {
        public ThreeTimesTf32() {
            super("flash-3xtf32", new MmaFlash(MmaFlash.Products.TF32_X3));
        }
    }
}
