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
 * The course's two small models for tests of data parallelism: […, 10] → […, 5], a chain of linear layers with ReLU
 * between. The plain one has widths 10 → 10 → 50 → 5, the tied one 10 → 10 → 50 → 10 → 50 → 5, where both layers 10 →
 * 50 share their weight. In both, the bias of the first layer 10 → 50 is frozen, and so is a parameter {@code fixed}
 * that nothing uses.
 */
public final class ToyModel extends NnModule {
    /** Features of an input. */
    public static final int IN = 10;
    /** Features of an output. */
    public static final int OUT = 5;

    private static final int HIDDEN = 50;

    private final Device device;
    private final DType dtype;
    private final Layer[] layers;

    /** A model with fresh weights. Seed with {@link cs336.torch.Torch#seed} first for the same ones again. */
    public ToyModel(boolean tied, Device device, DType dtype) {
        this.device = device;
        this.dtype = dtype;
        Layer first = child("fc1", new Layer(fresh(IN, IN), null));
        Layer biased = child("fc2", new Layer(fresh(HIDDEN, IN), fresh(HIDDEN)));
        if (tied) {
            Layer back = child("fc3", new Layer(fresh(IN, HIDDEN), null));
            Layer again = child("fc4", new Layer(biased));
            layers = new Layer[] {first, biased, back, again, child("fc5", new Layer(fresh(OUT, HIDDEN), null))};
        } else {
            layers = new Layer[] {first, biased, child("fc3", new Layer(fresh(OUT, HIDDEN), null))};
        }
        Tensor fixed = parameter("fixed", torch.full(new long[] {2}, new Scalar(2.0), device.options(dtype)));
        fixed.set_requires_grad(false);
    }

    @Override
    protected Tensor compute(Tensor x) {
        Tensor y = layers[0].forward(x);
        for (int i = 1; i < layers.length; i++) y = layers[i].forward(torch.relu(y));
        return y;
    }

    /** Uniform within ±1/√in, where in is the last dimension. */
    private Tensor fresh(long... shape) {
        try (var scope = MemoryScope.open()) {
            double bound = 1 / Math.sqrt(shape[shape.length - 1]);
            Tensor values = torch.empty(shape, device.options(dtype), null);
            values.uniform_(-bound, bound, new GeneratorOptional());
            return scope.escape(values);
        }
    }

    /** x·Wᵀ + b. */
    private static final class Layer extends NnModule {
        private final Tensor weight;
        private final Tensor bias; // null where there is none

        Layer(Tensor weight, Tensor bias) {
            this.weight = parameter("weight", weight);
            this.bias = bias == null ? null : parameter("bias", bias);
            if (bias != null) bias.set_requires_grad(false);
        }

        /** A layer without bias that shares another one's weight. */
        Layer(Layer other) {
            weight = share("weight", other.weight);
            bias = null;
        }

        @Override
        protected Tensor compute(Tensor x) {
            return torch.linear(x, weight, bias == null ? new TensorOptional() : new TensorOptional(bias));
        }
    }
}
