package cs336.basics;

import cs336.torch.DType;
import cs336.torch.Device;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** The position-wise feed-forward layers of the 2024 and 2025 models: [B, T, D] → [B, T, D] with inner width F. */
abstract class FeedForward extends NnModule {
    /** Returns the function (g, u) → silu(g) ∘ u of {@link SwiGlu}, which all layers of a model share. */
    static Fuser.FusedFunction activation(Fuser fuser) {
        return fuser.of(in -> torch.silu(in[0]).mul(in[1]));
    }

    /**
     * @param fuser the executor of W₁·x and W₃·x, which only SwiGLU uses
     * @param activation the function of {@link #activation}, which only SwiGLU uses; the caller closes it
     */
    static FeedForward of(
            ModelEdition edition,
            int dModel,
            int dFf,
            Fuser fuser,
            Fuser.FusedFunction activation,
            Device device,
            DType dtype) {
        return switch (edition) {
            case SPRING_2024 -> new Gelu(dModel, dFf, device, dtype);
            case SPRING_2025 -> new SwiGlu(dModel, dFf, fuser, activation, device, dtype);
        };
    }

    /** Returns the input of w2, [B, T, F]. */
    abstract Tensor inner(Tensor x);

    /** Returns the layer w2. */
    abstract Linear down();

    @Override
    protected final Tensor compute(Tensor x) {
        return down().forward(inner(x));
    }

    /** Returns zeros with the shape and autograd graph of the output; see {@link UnreadLinear}. */
    final Tensor unread(Tensor x) {
        return run(() -> down().unread(inner(x)));
    }

    /**
     * W₂·gelu(W₁·x) with the exact GELU, x·Φ(x). Parameters {@code w1.weight} [F, D], {@code w2.weight} [D, F].
     *
     * <p>Source: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
     */
    private static final class Gelu extends FeedForward {
        private final Linear up;
        private final Linear down;

        Gelu(int dModel, int dFf, Device device, DType dtype) {
            up = child("w1", new Linear(dModel, dFf, device, dtype));
            down = child("w2", new Linear(dFf, dModel, device, dtype));
        }

        @Override
        Tensor inner(Tensor x) {
            return torch.gelu(up.forward(x));
        }

        @Override
        Linear down() {
            return down;
        }
    }

    /**
     * W₂·(silu(W₁·x) ∘ W₃·x). Parameters {@code w1.weight} [F, D], {@code w2.weight} [D, F], {@code w3.weight} [F, D].
     *
     * <p>Source: Shazeer, "GLU Variants Improve Transformer", 2020.
     */
    private static final class SwiGlu extends FeedForward {
        private final Linear gate;
        private final Linear down;
        private final Linear up;
        private final Fuser fuser;
        private final Fuser.FusedFunction activation;

        SwiGlu(int dModel, int dFf, Fuser fuser, Fuser.FusedFunction activation, Device device, DType dtype) {
            this.fuser = fuser;
            this.activation = activation;
            gate = child("w1", new Linear(dModel, dFf, device, dtype));
            down = child("w2", new Linear(dFf, dModel, device, dtype));
            up = child("w3", new Linear(dModel, dFf, device, dtype));
        }

        @Override
        Tensor inner(Tensor x) {
            return activation.apply(fuser.linear(x, gate, up));
        }

        @Override
        Linear down() {
            return down;
        }
    }
}
