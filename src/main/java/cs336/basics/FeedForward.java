package cs336.basics;

import cs336.checkpointing.ActivationStore;
import cs336.torch.DType;
import cs336.torch.Device;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** The position-wise feed-forward layers of the 2024 and 2025 models: [B, T, D] → [B, T, D] with inner width F. */
abstract class FeedForward extends NnModule {
    private final Fuser fuser;

    private FeedForward(Fuser fuser) {
        this.fuser = fuser;
    }

    /** Returns the function (g, u) → silu(g) ∘ u of {@link SwiGlu}, which all layers of a model share. */
    static Fuser.FusedFunction activation(Fuser fuser) {
        return fuser.of(in -> torch.silu(in[0]).mul(in[1]));
    }

    /**
     * @param fuser runs the layers before the activation function
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
            case SPRING_2024 -> new Gelu(dModel, dFf, fuser, device, dtype);
            case SPRING_2025 -> new SwiGlu(dModel, dFf, fuser, activation, device, dtype);
        };
    }

    /** Returns the layers before the activation function. */
    abstract Linear[] up();

    /** Returns the input of w2 for the outputs of {@link #up}, all [B, T, F]. */
    abstract Tensor activated(Tensor... up);

    /** Returns the layer w2. */
    abstract Linear down();

    private Tensor inner(Tensor x) {
        return activated(fuser.linear(x, up()));
    }

    @Override
    protected final Tensor compute(Tensor x) {
        return down().forward(inner(x));
    }

    /**
     * Returns a tensor with the shape and autograd graph of the output, but not its values; see {@link Linear#unread}.
     */
    final Tensor unread(Tensor x) {
        return run(() -> down().unread(inner(x)));
    }

    /**
     * Returns the output for the input norm(x). The backward pass computes norm(x) and the input of w2 again.
     *
     * @param x the input of the normalization, [B, T, D]
     * @param store keeps the outputs of the layers before the activation function
     */
    final Tensor forwardRecomputing(NnModule norm, Tensor x, ActivationStore store) {
        return run(() -> {
            Tensor[] up = fuser.linearRecomputingInput(
                    ActivationStore.graph(), in -> norm.forward(in[0]), new Tensor[] {x}, up());
            return fuser.linearRecomputingInput(store, this::activated, up, down())[0];
        });
    }

    /**
     * W₂·gelu(W₁·x) with the exact GELU, x·Φ(x). Parameters {@code w1.weight} [F, D], {@code w2.weight} [D, F].
     *
     * <p>Source: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
     */
    private static final class Gelu extends FeedForward {
        private final Linear up;
        private final Linear down;

        Gelu(int dModel, int dFf, Fuser fuser, Device device, DType dtype) {
            super(fuser);
            up = child("w1", new Linear(dModel, dFf, device, dtype));
            down = child("w2", new Linear(dFf, dModel, device, dtype));
        }

        @Override
        Linear[] up() {
            return new Linear[] {up};
        }

        @Override
        Tensor activated(Tensor... up) {
            return torch.gelu(up[0]);
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
        private final Fuser.FusedFunction activation;

        SwiGlu(int dModel, int dFf, Fuser fuser, Fuser.FusedFunction activation, Device device, DType dtype) {
            super(fuser);
            this.activation = activation;
            gate = child("w1", new Linear(dModel, dFf, device, dtype));
            down = child("w2", new Linear(dFf, dModel, device, dtype));
            up = child("w3", new Linear(dModel, dFf, device, dtype));
        }

        @Override
        Linear[] up() {
            return new Linear[] {gate, up};
        }

        @Override
        Tensor activated(Tensor... up) {
            return activation.apply(up);
        }

        @Override
        Linear down() {
            return down;
        }
    }
}
