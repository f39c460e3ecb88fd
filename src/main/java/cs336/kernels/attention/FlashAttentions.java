package cs336.kernels.attention;

import cs336.basics.Attention;
import cs336.kernels.runtime.Fp32Emulation;
import java.util.function.Function;
import org.bytedeco.pytorch.Tensor;

/**
 * The named implementations of {@link FlashAttention}: {@code flash} and {@code flash-deterministic} select a variant
 * for their inputs. The others always use one variant, for comparisons.
 */
public final class FlashAttentions {
    private FlashAttentions() {}

    private abstract static class NamedFlashAttention implements Attention {
        private final String name;
        private final Function<Tensor, FlashVariant> variant;

        NamedFlashAttention(String name, Function<Tensor, FlashVariant> variant) {
            this.name = name;
            this.variant = variant;
        }

        NamedFlashAttention(String name, FlashVariant variant) {
            this(name, q -> variant);
        }

        @Override
        public String name() {
            return name;
        }

        @Override
        public Tensor apply(Tensor q, Tensor k, Tensor v, boolean causal) {
            return FlashAttention.apply(q, k, v, causal, variant);
        }
    }

    /** {@code flash}: the fastest variant for the inputs. */
    public static final class Fastest extends NamedFlashAttention {
        public Fastest() {
            super("flash", FlashVariant::of);
        }
    }

    /** {@code flash-deterministic}: the fastest variant with bitwise reproducible results. */
    public static final class Deterministic extends NamedFlashAttention {
        public Deterministic() {
            super("flash-deterministic", q -> FlashVariant.of(q, true));
        }
    }

    /** {@code flash-tiled}: {@link TiledFlash}. */
    public static final class Tiled extends NamedFlashAttention {
        public Tiled() {
            super("flash-tiled", TiledFlash.DEFAULT);
        }
    }

    /** {@code flash-first}: {@link FirstFlash}. */
    public static final class First extends NamedFlashAttention {
        public First() {
            super("flash-first", new FirstFlash());
        }
    }

    /** {@code flash-mma}: {@link MmaFlash}, mainly for bf16 and fp16. */
    public static final class Mma extends NamedFlashAttention {
        public Mma() {
            super("flash-mma", new MmaFlash(Fp32Emulation.TF32_X3));
        }
    }

    /** {@code flash-tf32}: {@link MmaFlash} with fp32 rounded to TF32. */
    public static final class Tf32 extends NamedFlashAttention {
        public Tf32() {
            super("flash-tf32", new MmaFlash(Fp32Emulation.TF32));
        }
    }

    /**
     * {@code flash-3xtf32}: {@code flash-mma} under a name for comparisons in fp32, which it splits into two TF32
     * numbers.
     */
    public static final class ThreeTimesTf32 extends NamedFlashAttention {
        public ThreeTimesTf32() {
            super("flash-3xtf32", new MmaFlash(Fp32Emulation.TF32_X3));
        }
    }
}
