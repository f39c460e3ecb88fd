package cs336.checkpointing;

import cs336.torch.CudaGraph;
import cs336.torch.MemoryScope;
import cs336.torch.OperatorInterceptor;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Edge;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.Node;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Activation checkpointing of any function of tensors. The autograd graph keeps the inputs of the function instead of
 * its intermediate results. The backward pass computes these again. The counterpart of {@code torch.utils.checkpoint}
 * with {@code use_reentrant=False}. PyTorch keeps the function's own graph nodes; here the whole function is one node.
 *
 * <pre>{@code
 * Tensor y = ActivationCheckpoint.apply(x -> ffn.forward(norm.forward(x)), x);
 * }</pre>
 *
 * <p><b>The function</b> runs in the forward pass and again in the backward pass, with the same inputs. It must compute
 * the same both times, and must not change its inputs in place. If the recomputation returns other shapes or another
 * graph, the backward pass throws an {@link IllegalStateException}. It may use other tensors than its inputs, such as
 * parameters of layers. These get their gradients, too, but they must still exist in the backward pass. A tensor that
 * its memory scope has freed by then must be an input. A layer that updates buffers in its forward pass, such as
 * running statistics, updates them twice, as in PyTorch.
 *
 * <p><b>Random numbers and autocast.</b> The recomputation starts with the random state of the forward pass, on the CPU
 * and on the GPUs of the inputs, and runs under the autocast dtypes of the forward pass. The backward pass does not
 * change the random state.
 *
 * <p><b>Gradients.</b> The checkpointed function is one node in the autograd graph, with an edge to each input and to
 * each other tensor that requires a gradient. Each parameter's gradient is therefore complete once per backward pass,
 * and its {@linkplain cs336.torch.GradientHooks hooks} run once, even if several checkpointed functions use it. The
 * gradients of one node become ready together. Checkpointed functions may contain others and can be differentiated
 * twice.
 *
 * <p><b>Memory.</b> The graph of the function exists while the function runs, in the forward pass too. It is freed
 * before the next function of the forward or backward pass starts. Autocast's casts of the weights are freed with it.
 *
 * <p><b>Recorded programs.</b> A step that a compiler records contains the recomputation, which starts from copies of
 * the inputs. A {@link CheckpointPolicy} therefore also determines what a compiled step keeps. A function that draws
 * random numbers is recorded without recomputation, because it could not draw the same numbers again. So is a compiled
 * function that draws random numbers in a CUDA graph.
 */
public final class ActivationCheckpoint {
    private ActivationCheckpoint() {}

    /**
     * Applies a function of one tensor. Without grad mode, or if the output requires no gradient, the result is that of
     * the plain function.
     *
     * @return the output, in the caller's memory scope
     * @throws IllegalArgumentException if the input is null, closed or undefined
     * @throws IllegalStateException if the function changes its input in place, or returns no tensor
     */
    public static Tensor apply(UnaryOperator<Tensor> function, Tensor input) {
        return apply(function, function, input);
    }

    /**
     * Applies a function of one tensor that is recomputed by another function. The values that the recomputation
     * returns are not read, only their graph. It can therefore omit operations on whose results no gradient depends,
     * such as the matrix multiplication of a last linear layer.
     *
     * @param recomputation returns a tensor of the same shape, whose graph computes the gradients of the function and
     *     uses the same tensors
     * @return the output, in the caller's memory scope
     * @throws IllegalArgumentException if the input is null, closed or undefined
     * @throws IllegalStateException if the function changes its input in place, or returns no tensor
     */
    public static Tensor apply(UnaryOperator<Tensor> function, UnaryOperator<Tensor> recomputation, Tensor input) {
        Objects.requireNonNull(function, "function must not be null");
        Objects.requireNonNull(recomputation, "recomputation must not be null");
        return applyAll(
                inputs -> new Tensor[] {function.apply(inputs[0])},
                inputs -> new Tensor[] {recomputation.apply(inputs[0])},
                input)[0];
    }

    /**
     * Applies a function of several tensors. Without grad mode, or if no output requires a gradient, the results are
     * those of the plain function.
     *
     * @param inputs tensors of any dtype, with or without {@code requires_grad}
     * @return the outputs, in the caller's memory scope
     * @throws IllegalArgumentException if an input is null, closed or undefined
     * @throws IllegalStateException if the function changes an input in place, or returns no tensors
     */
    public static Tensor[] applyAll(Function<Tensor[], Tensor[]> function, Tensor... inputs) {
        return applyAll(function, function, inputs);
    }

    /**
     * Applies a function of several tensors that is recomputed by another function; see {@link #apply(UnaryOperator,
     * UnaryOperator, Tensor)}.
     *
     * @return the outputs, in the caller's memory scope
     * @throws IllegalArgumentException if an input is null, closed or undefined
     * @throws IllegalStateException if the function changes an input in place, or returns no tensors
     */
    public static Tensor[] applyAll(
            Function<Tensor[], Tensor[]> function, Function<Tensor[], Tensor[]> recomputation, Tensor... inputs) {
        return applyAll(ActivationStore.graph(), function, recomputation, inputs);
    }

    /**
     * Applies a function of several tensors whose inputs are kept in a store; see {@link HostStore}.
     *
     * @return the outputs, in the caller's memory scope
     * @throws IllegalArgumentException if an input is null, closed or undefined, or if the store is a {@link HostStore}
     *     and the inputs are on several devices
     * @throws IllegalStateException if the function changes an input in place, or returns no tensors
     */
    public static Tensor[] applyAll(
            ActivationStore store,
            Function<Tensor[], Tensor[]> function,
            Function<Tensor[], Tensor[]> recomputation,
            Tensor... inputs) {
        Objects.requireNonNull(store, "store must not be null");
        Objects.requireNonNull(function, "function must not be null");
        Objects.requireNonNull(recomputation, "recomputation must not be null");
        for (int i = 0; i < inputs.length; i++) {
            Tensors.requireDefined("input " + i, inputs[i]);
        }
        try (var scope = MemoryScope.open()) {
            return scope.escapeAll(
                    GradMode.is_enabled() ? record(store, function, recomputation, inputs) : run(function, inputs));
        }
    }

    /** Runs the function and adds its node to the graph. */
    private static Tensor[] record(
            ActivationStore store,
            Function<Tensor[], Tensor[]> function,
            Function<Tensor[], Tensor[]> recomputation,
            Tensor... inputs) {
        RandomState random = RandomState.of(inputs);
        int seeds = CudaGraph.seeds();
        var autocast = AutocastDtypes.ofThisThread();
        Tensor[] aliases = aliases(inputs);
        long firstSequenceNumber = torch.peek();
        autocast.clearCasts();
        Tensor[] outputs = run(function, aliases);
        autocast.clearCasts();
        int[] differentiable = IntStream.range(0, outputs.length)
                .filter(i -> outputs[i].requires_grad())
                .toArray();
        if (differentiable.length == 0) {
            return outputs;
        }
        RandomState used = random.orNullIfUnused();
        boolean isDrawnLater = CudaGraph.seeds() > seeds; // in replays of a graph
        if (isDrawnLater || used != null && OperatorInterceptor.isActive()) {
            return outputs; // a run of the recorded program or graph would draw other numbers in the recomputation
        }
        Tensor[] roots = Arrays.stream(differentiable).mapToObj(i -> outputs[i]).toArray(Tensor[]::new);
        List<Edge> captured = CapturedEdges.find(roots, aliases, firstSequenceNumber);
        Tensor[] values = Arrays.stream(roots).map(Tensor::detach).toArray(Tensor[]::new);
        var node = new RecomputedFunction(
                store,
                recomputation,
                inputs.length,
                differentiable,
                outputs.length,
                captured.stream().map(CapturedEdges.EdgeTarget::of).toList(),
                autocast,
                used,
                values);
        Tensor[] results = node.apply(withPlaceholders(inputs, captured));
        Node recorded = results[0].grad_fn();
        for (int i = 0; i < captured.size(); i++) {
            recorded.set_next_edge(inputs.length + i, captured.get(i));
        }
        for (int i = 0; i < results.length; i++) {
            outputs[differentiable[i]] = results[i];
        }
        return outputs;
    }

    private static Tensor[] withPlaceholders(Tensor[] inputs, List<Edge> captured) {
        Tensor[] all = Arrays.copyOf(inputs, inputs.length + captured.size());
        for (int i = inputs.length; i < all.length; i++) {
            all[i] = CapturedEdges.placeholder(captured.get(i - inputs.length));
        }
        return all;
    }

    /** Replaces each input that requires a gradient by a view of it, at which the function's graph ends. */
    static Tensor[] aliases(Tensor... inputs) {
        return Arrays.stream(inputs)
                .map(input -> input.requires_grad() ? input.view_as(input) : input)
                .toArray(Tensor[]::new);
    }

    /**
     * Runs the function in its own memory scope, so that its graph alone holds intermediate tensors.
     *
     * @return new tensor objects; those that require gradients are aliases with their own node, which passes on the
     *     same gradient. The node of a view would pass on a view, which a leaf would keep as its gradient.
     */
    static Tensor[] run(Function<Tensor[], Tensor[]> function, Tensor... inputs) {
        long[] versions = Arrays.stream(inputs).mapToLong(Tensor::_version).toArray();
        try (var scope = MemoryScope.open()) {
            Tensor[] outputs = function.apply(inputs.clone());
            if (outputs == null || outputs.length == 0) {
                throw new IllegalStateException("a checkpointed function must return at least one tensor");
            }
            for (int i = 0; i < inputs.length; i++) {
                if (inputs[i]._version() != versions[i]) {
                    throw new IllegalStateException("a checkpointed function changed its input " + i + " in place");
                }
            }
            Tensor[] results = new Tensor[outputs.length];
            for (int i = 0; i < outputs.length; i++) {
                if (outputs[i] == null || outputs[i].isNull() || !outputs[i].defined()) {
                    throw new IllegalStateException(
                            "output " + i + " of a checkpointed function must be a defined tensor");
                }
                results[i] =
                        scope.escape(outputs[i].requires_grad() ? torch.alias(outputs[i]) : new Tensor(outputs[i]));
            }
            return results;
        }
    }
}
