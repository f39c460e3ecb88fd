package cs336.checkpointing;

import cs336.torch.AutogradFunction;
import cs336.torch.OperatorInterceptor;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;

/**
 * A store in page-locked memory of the host: activation offloading, PyTorch's
 * {@code torch.autograd.graph.save_on_cpu(pin_memory=True)} with copies that overlap with computation. The inputs
 * occupy memory of the GPU only while a block and its successor run, in the forward and in the backward pass.
 *
 * <pre>{@code
 * var host = new HostStore();
 * host.beginPass();
 * for (Function<Tensor[], Tensor[]> block : blocks) {
 *     try (MemoryScope scope = MemoryScope.open()) { // another reference would keep the input on the GPU
 *         Tensor y = scope.escape(host.endBlock(ActivationCheckpoint.applyAll(host, block, block, x)[0]));
 *         x.close();
 *         x = y;
 *     }
 * }
 * }</pre>
 *
 * <p>Copies run on a stream of their own. In the forward pass, {@link #endBlock} makes the current stream wait for the
 * copies of the previous block and frees its tensors on the GPU. In the backward pass, the copies back to the GPU start
 * one block ahead. A block must take longer than the copies of its inputs; otherwise computation waits for them.
 *
 * <p>PyTorch's allocator rounds each page-locked buffer up to a power of two bytes, and keeps it for later steps. The
 * first step takes longer, because it allocates them. The graph frees the buffers, with or without a backward pass.
 *
 * <p>Inputs on the CPU are not copied. A function whose inputs are in this store has no second derivatives. It must not
 * be part of another checkpointed function or of a step that a compiler records. One thread at a time may use a store.
 */
public final class HostStore extends ActivationStore {
    private List<OffloadedInputs> previousBlock = List.of();
    private List<OffloadedInputs> currentBlock = new ArrayList<>();
    private final Set<OffloadedInputs> prefetched = new HashSet<>(); // and not taken yet

    /** Creates an empty store. */
    public HostStore() {}

    /**
     * Begins a forward pass. Frees the tensors on the GPU that earlier passes have left, even if one of them failed.
     */
    public void beginPass() {
        prefetched.forEach(OffloadedInputs::drop);
        prefetched.clear();
        endBlock().forEach(OffloadedInputs::handOver);
        endBlock().forEach(OffloadedInputs::handOver);
    }

    /** Frees the tensors of the previous block on the GPU, and returns their copies in host memory. */
    private List<OffloadedInputs> endBlock() {
        List<OffloadedInputs> previous = previousBlock;
        previousBlock = currentBlock;
        currentBlock = new ArrayList<>();
        previous.forEach(OffloadedInputs::release);
        return previous;
    }

    /**
     * Ends a block of the forward pass. The returned tensor is the input of the next block. When the backward pass
     * reaches it, the inputs of the previous block begin to be copied back to the GPU.
     *
     * @param output the output of the block; any tensor
     * @return the same tensor, or a view of it in the caller's memory scope
     */
    public Tensor endBlock(Tensor output) {
        Objects.requireNonNull(output, "output must not be null");
        Tensor result = output;
        for (OffloadedInputs previous : endBlock()) {
            result = new Prefetch(previous).apply(result)[0];
            previous.handOver();
        }
        return result;
    }

    @Override
    void save(AutogradFunction.Context ctx, Tensor... inputs) {
        if (OperatorInterceptor.isActive()) {
            throw new IllegalStateException("activations in host memory cannot be part of a recorded step");
        }
        var offloaded = new OffloadedInputs(inputs);
        currentBlock.add(offloaded);
        ctx.onceDifferentiable();
        ctx.save(offloaded.onHost());
        ctx.put(offloaded);
    }

    @Override
    Tensor[] saved(AutogradFunction.Context ctx, int inputs) {
        OffloadedInputs offloaded = ctx.get(OffloadedInputs.class);
        prefetched.remove(offloaded);
        return offloaded.take(savedTensors(ctx, inputs));
    }

    /** The identity, whose backward pass starts to copy the inputs of one function back. */
    private final class Prefetch extends AutogradFunction {
        private final OffloadedInputs inputs;

        Prefetch(OffloadedInputs inputs) {
            this.inputs = inputs;
        }

        @Override
        protected Tensor[] forward(Context ctx, Tensor... x) {
            ctx.onceDifferentiable();
            ctx.save(inputs.onHost());
            return new Tensor[] {x[0].view_as(x[0])};
        }

        @Override
        protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
            inputs.prefetch(savedTensors(ctx, inputs.size()));
            prefetched.add(inputs);
            return gradOutputs;
        }
    }
}
