package cs336.distributed.bench;

import cs336.basics.NnModule;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import org.bytedeco.pytorch.GeneratorOptional;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;

/**
 * The course's two small models for testing data parallelism, [B, 10] → [B, 5]: a chain of linear layers with ReLU
 * between them. The plain model has widths 10 → 10 → 50 → 5. The tied model has widths 10 → 10 → 50 → 10 → 50 → 5, and
 * its two layers 10 → 50 share their weight. In both models the bias of the first layer 10 → 50 and an unused parameter
 * {@code fixed} do not require gradients.
 */
public final class ToyModel extends NnModule {
    /** Number of input features. */
    public static final int IN = 10;
    /** Number of output features. */
    public static final int OUT = 5;

    private static final int HIDDEN = 50;

    private final Device device;
    private final DType dtype;
    private final ToyLayer[] layers;

    /**
     * Creates a model with random weights, see {@link cs336.torch.Torch#seed}.
     *
     * @param tied whether to create the tied model
     */
    public ToyModel(boolean tied, Device device, DType dtype) {
        this.device = device;
        this.dtype = dtype;
        ToyLayer first = child("fc1", new ToyLayer(uniform(IN, IN), null));
        ToyLayer biased = child("fc2", new ToyLayer(uniform(HIDDEN, IN), uniform(HIDDEN)));
        if (tied) {
            ToyLayer back = child("fc3", new ToyLayer(uniform(IN, HIDDEN), null));
            ToyLayer again = child("fc4", new ToyLayer(biased));
            layers =
                    new ToyLayer[] {first, biased, back, again, child("fc5", new ToyLayer(uniform(OUT, HIDDEN), null))};
        } else {
            layers = new ToyLayer[] {first, biased, child("fc3", new ToyLayer(uniform(OUT, HIDDEN), null))};
        }
        Tensor fixed = parameter("fixed", torch.full(new long[] {2}, new Scalar(2.0), device.options(dtype)));
        fixed.set_requires_grad(false);
    }

    @Override
    protected Tensor compute(Tensor x) {
        Tensor y = layers[0].forward(x);
        for (int i = 1; i < layers.length; i++) {
            y = layers[i].forward(torch.relu(y));
        }
        return y;
    }

    /** Returns a tensor drawn uniformly from ±1/√n, where n is the size of the last dimension. */
    private Tensor uniform(long... shape) {
        try (var scope = MemoryScope.open()) {
            double bound = 1 / Math.sqrt(shape[shape.length - 1]);
            Tensor values = torch.empty(shape, device.options(dtype), null);
            values.uniform_(-bound, bound, new GeneratorOptional());
            return scope.escape(values);
        }
    }

    /** A linear layer x Wᵀ + b. */
    private static final class ToyLayer extends NnModule {
        private final Tensor weight;
        private final Tensor bias; // null without bias

        ToyLayer(Tensor weight, Tensor bias) {
            this.weight = parameter("weight", weight);
            this.bias = bias == null ? null : parameter("bias", bias);
            if (bias != null) {
                bias.set_requires_grad(false);
            }
        }

        /** Creates a layer without bias that shares the weight of another one. */
        ToyLayer(ToyLayer other) {
            weight = share("weight", other.weight);
            bias = null;
        }

        @Override
        protected Tensor compute(Tensor x) {
            return torch.linear(x, weight, bias == null ? new TensorOptional() : new TensorOptional(bias));
        }
    }
}
