package cs336.checkpointing;

import cs336.torch.AutogradFunction;
import cs336.torch.OperatorInterceptor;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.bytedeco.pytorch.Tensor;

/**
 * A store in page-locked memory of the host: activation offloading, PyTorch's
 * {@code torch.autograd.graph.save_on_cpu(pin_memory=True)} with copies that overlap with computation. The inputs
 * occupy memory of the GPU only while a block and its successor run, in the forward and in the backward pass.
 *
 * <pre>{@code
 * var host = new HostStore();
 * for (NnModule block : blocks) {
 *     Tensor y = ActivationCheckpoint.applyAll(host, f, f, x)[0];
 *     x = host.endBlock(y);
 * }
 * }</pre>
 *
 * <p>Copies run on a stream of their own. {@link #endBlock} makes the forward pass wait for the copies of the block
 * before and frees the GPU's tensors, and the backward pass start the copies back one block ahead. A block must take
 * longer than the copies of its inputs; otherwise computation waits for them.
 *
 * <p>Inputs on the CPU are not copied. A function whose inputs are in this store can be differentiated once: not with
 * {@code createGraph}, and not again after {@code retainGraph}. Such a step cannot be recorded by a compiler. One
 * thread at a time may use a store.
 */
public final class HostStore extends ActivationStore {
    private List<HostInputs> ofPreviousBlock = List.of();
    private List<HostInputs> ofThisBlock = new ArrayList<>();

    /** Creates a store, to which no function belongs yet. */
    public HostStore() {}

    /**
     * Ends a block. Returns its output, behind which the backward pass starts to copy the inputs of the previous block
     * back.
     *
     * @param output the output of the block; any tensor
     * @return the same tensor, or a view of it in the caller's memory scope
     */
    public Tensor endBlock(Tensor output) {
        Objects.requireNonNull(output, "output must not be null");
        List<HostInputs> previous = ofPreviousBlock;
        ofPreviousBlock = ofThisBlock;
        ofThisBlock = new ArrayList<>();
        previous.forEach(HostInputs::release);
        return previous.isEmpty() ? output : new CopyingBack(previous).apply(output)[0];
    }

    @Override
    void save(AutogradFunction.Context ctx, Tensor... inputs) {
        if (OperatorInterceptor.isActive()) {
            throw new IllegalStateException("activations in host memory cannot be part of a recorded step; recompute"
                    + " the feed-forward layers instead (elementwise+ffn-<k>)");
        }
        var copies = new HostInputs(inputs);
        ofThisBlock.add(copies);
        ctx.onceDifferentiable();
        ctx.put(copies);
    }

    @Override
    Tensor[] saved(AutogradFunction.Context ctx, int inputs) {
        return ctx.get(HostInputs.class).take();
    }

    /** The identity, whose backward pass starts to copy inputs back. */
    private static final class CopyingBack extends AutogradFunction {
        private final List<HostInputs> inputs;

        CopyingBack(List<HostInputs> inputs) {
            this.inputs = inputs;
        }

        @Override
        protected Tensor[] forward(Context ctx, Tensor... x) {
            return new Tensor[] {x[0].view_as(x[0])};
        }

        @Override
        protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
            inputs.forEach(HostInputs::copyBack);
            return gradOutputs;
        }
    }
}
