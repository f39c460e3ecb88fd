package cs336.basics;

import cs336.torch.Autocast;
import cs336.torch.AutogradFunction;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.Objects;
import java.util.stream.Stream;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;

/**
 * A linear layer x·Wᵀ, or x·Wᵀ + b with a bias: […, in] → […, out]. Parameters {@code weight} [out, in] and, with a
 * bias, {@code bias} [out].
 */
public final class Linear extends NnModule {
    private static final String ADAPTER = "adapter";

    private final Tensor weight;
    private final Tensor bias; // null without a bias
    private NnModule adapter; // null without an adapter

    /**
     * Creates a layer without bias, unlike PyTorch's default; see {@link #Linear(int, int, boolean, Device, DType)}.
     *
     * @throws IllegalArgumentException if a width is below 1
     */
    public Linear(int in, int out, Device device, DType dtype) {
        this(in, out, false, device, dtype);
    }

    /**
     * Creates a layer with normal weights of variance 2 ÷ (in + out), truncated at ±3 standard deviations.
     *
     * @param bias whether the layer adds a bias, which is initialized to 0
     * @throws IllegalArgumentException if a width is below 1
     */
    public Linear(int in, int out, boolean bias, Device device, DType dtype) {
        TransformerConfig.requirePositive("in", in);
        TransformerConfig.requirePositive("out", out);
        weight = parameter("weight", Initialization.matrix(out, in, device, dtype));
        this.bias = bias ? parameter("bias", Initialization.zeros(out, device, dtype)) : null;
    }

    /**
     * Creates a layer without bias whose weight another layer owns, such as an output head tied to the token
     * embeddings. Closing either layer frees the weight.
     *
     * @param sharedWeight [out, in]
     * @throws IllegalArgumentException if it is not a 2-dimensional floating-point tensor, or has an autograd graph
     */
    public Linear(Tensor sharedWeight) {
        Tensors.requireFloating("sharedWeight", sharedWeight);
        if (sharedWeight.dim() != 2) {
            throw new IllegalArgumentException(
                    "sharedWeight must have the shape [out, in], not " + Arrays.toString(Tensors.shape(sharedWeight)));
        }
        weight = share("weight", sharedWeight);
        bias = null;
    }

    /**
     * Sets an adapter: a layer whose output is added to the output of this layer, for example a low-rank adapter
     * (LoRA). It becomes the child {@code adapter}. Optimizers and other users of the parameters must be created
     * afterwards.
     *
     * @param adapter […, in] → […, out]; its output is cast to the dtype of this layer's output. If it has another
     *     shape, the forward pass throws an {@link IllegalStateException}
     * @throws IllegalArgumentException if the layer already has an adapter, or the adapter contains this layer
     */
    public void adapt(NnModule adapter) {
        this.adapter = child(ADAPTER, adapter);
    }

    /**
     * Removes the adapter without closing it.
     *
     * @throws IllegalArgumentException if the layer has none
     */
    public void removeAdapter() {
        removeChild(ADAPTER);
        adapter = null;
    }

    private Tensor adapted(Tensor x, Tensor y) {
        if (adapter == null) {
            return y;
        }
        Tensor added = adapter.forward(x);
        if (!Arrays.equals(Tensors.shape(added), Tensors.shape(y))) {
            throw new IllegalStateException("the adapter must return the shape " + Arrays.toString(Tensors.shape(y))
                    + ", not " + Arrays.toString(Tensors.shape(added)));
        }
        return y.add(added.to(y.scalar_type()));
    }

    /**
     * Returns the mean cross-entropy of the outputs, which are logits, and stores only some rows of them at a time.
     *
     * @param rows the number of rows that are in memory at a time; see {@link LinearCrossEntropy}
     * @throws IllegalStateException if the layer has a bias or an adapter
     */
    Tensor crossEntropy(Tensor x, Tensor targets, int rows) {
        if (addsToProduct()) {
            throw new IllegalStateException(
                    "the cross-entropy of some rows at a time needs an output head without bias and adapter");
        }
        return run(() -> LinearCrossEntropy.of(x, weight, targets, rows));
    }

    /**
     * Returns the outputs of several layers with the same input as one differentiable function. Its backward pass
     * writes the gradient of the input once. Without grad mode the layers run separately. They also do so if one has a
     * bias, an adapter, or an action {@linkplain #afterForward after its forward pass}. This action may free its weight
     * before all layers have used it.
     *
     * @param x […, in]
     * @return a tensor […, out] for each layer, in the caller's memory scope
     * @throws IllegalArgumentException if x does not have the width and dtype that all layers accept
     */
    public static Tensor[] jointly(Tensor x, Linear... layers) {
        return canJoin(x, layers) ? joined(new JointLinear(true), x, layers) : separately(x, layers);
    }

    /**
     * Returns tensors with the shapes and the autograd graph of {@link #jointly}, but not its values; see
     * {@link Fuser#unreadLinear}.
     *
     * @param x […, in]
     */
    public static Tensor[] jointlyUnread(Tensor x, Linear... layers) {
        return canJoin(x, layers) ? joined(new JointLinear(false), x, layers) : separatelyUnread(x, layers);
    }

    private static boolean canJoin(Tensor x, Linear... layers) {
        Objects.requireNonNull(layers, "layers must not be null");
        for (Linear layer : layers) {
            layer.requireWidth(x);
        }
        return layers.length > 1
                && GradMode.is_enabled()
                && Arrays.stream(layers).noneMatch(layer -> layer.addsToProduct() || layer.hasActionAfterForward());
    }

    private static Tensor[] joined(JointLinear function, Tensor x, Linear... layers) {
        try (var scope = MemoryScope.open()) {
            Tensor[] weights =
                    Arrays.stream(layers).map(layer -> layer.operand(x)).toArray(Tensor[]::new);
            return scope.escapeAll(function.of(x, weights));
        }
    }

    /**
     * Returns the weight as an operand of a matrix multiplication with x, cast to the autocast dtype, in a new handle.
     */
    private Tensor operand(Tensor x) {
        return run(() -> {
            requireDtype(x);
            return Autocast.operand(weight);
        });
    }

    private boolean addsToProduct() {
        return bias != null || adapter != null;
    }

    private void requireWidth(Tensor x) {
        requireOpen();
        Tensors.requireDefined("weight", weight); // the layer that owns a shared one may be closed
        Normalization.requireWidth(x, weight.size(1));
    }

    private void requireDtype(Tensor x) {
        if (DType.of(x) != DType.of(weight) && !(Autocast.casts(x) && Autocast.casts(weight))) {
            throw new IllegalArgumentException("input must have the dtype of the weight, " + DType.of(weight) + ", not "
                    + DType.of(x) + ", unless autocast casts both");
        }
    }

    /** Returns the outputs of several layers with the same input. */
    static Tensor[] separately(Tensor x, Linear... layers) {
        Objects.requireNonNull(layers, "layers must not be null");
        return Arrays.stream(layers).map(layer -> layer.forward(x)).toArray(Tensor[]::new);
    }

    /** Returns tensors with the shapes and the autograd graph of {@link #separately}, but not its values. */
    static Tensor[] separatelyUnread(Tensor x, Linear... layers) {
        Objects.requireNonNull(layers, "layers must not be null");
        return Arrays.stream(layers).map(layer -> layer.unread(x)).toArray(Tensor[]::new);
    }

    /**
     * Returns a tensor with the shape and autograd graph of the output, but not its values, in the caller's memory
     * scope. Used for the last layer of a checkpointed function, whose recomputation only needs the graph.
     */
    Tensor unread(Tensor x) {
        requireWidth(x);
        return run(() -> {
            requireDtype(x);
            Tensor zeros = new JointLinear(false).of(x, Autocast.operand(weight))[0];
            return adapted(x, bias == null ? zeros : zeros.add(Autocast.operand(bias)));
        });
    }

    @Override
    protected Tensor compute(Tensor x) {
        requireWidth(x);
        requireDtype(x);
        return adapted(x, bias == null ? torch.linear(x, weight) : torch.linear(x, weight, new TensorOptional(bias)));
    }

    /**
     * The function of {@link #jointly}: x, W₁, W₂, … → x·W₁ᵀ, x·W₂ᵀ, …. The backward pass accumulates the gradient of
     * x, dY₁·W₁ + dY₂·W₂ + …, inside the matrix multiplications. Separate layers compute one gradient each, and
     * autograd adds them with a kernel that reads two tensors and writes a third.
     */
    static final class JointLinear extends AutogradFunction {
        private static final long[] SCALAR = {};

        private final boolean read;

        /** @param read whether the outputs' values are needed; otherwise they are zeros, which take no memory */
        JointLinear(boolean read) {
            this.read = read;
        }

        /** @param weights already cast for autocast */
        private Tensor[] of(Tensor x, Tensor... weights) {
            return apply(Stream.concat(Stream.of(Autocast.operand(x)), Arrays.stream(weights))
                    .toArray(Tensor[]::new));
        }

        @Override
        protected Tensor[] forward(Context ctx, Tensor... inputs) {
            ctx.save(inputs);
            return Arrays.stream(inputs)
                    .skip(1)
                    .map(weight -> read ? torch.linear(inputs[0], weight) : zeros(inputs[0], weight.size(0)))
                    .toArray(Tensor[]::new);
        }

        private static Tensor zeros(Tensor x, long width) {
            long[] shape = Tensors.shape(x);
            shape[shape.length - 1] = width;
            return torch.zeros(SCALAR, x.options()).expand(shape);
        }

        @Override
        protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
            Tensor x = ctx.saved(0); // […, in]
            Tensor rows = x.reshape(-1, x.size(-1)); // [N, in]
            Tensor dX = null; // [N, in]
            Tensor[] gradients = new Tensor[1 + gradOutputs.length];
            for (int i = 1; i < gradients.length; i++) {
                if (gradOutputs[i - 1] == null) {
                    continue;
                }
                Tensor weight = ctx.saved(i); // [outᵢ, in]
                Tensor dY = gradOutputs[i - 1].reshape(-1, weight.size(0)); // [N, outᵢ]
                if (ctx.needsInputGrad(i)) {
                    gradients[i] = dY.t().matmul(rows);
                }
                if (ctx.needsInputGrad(0)) {
                    dX = dX == null ? dY.matmul(weight) : dX.addmm_(dY, weight);
                }
            }
            gradients[0] = dX == null ? null : dX.view(Tensors.shape(x));
            return gradients;
        }
    }
}
