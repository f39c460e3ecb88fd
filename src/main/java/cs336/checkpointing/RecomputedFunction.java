package cs336.checkpointing;

import cs336.torch.AutogradFunction;
import cs336.torch.Backward;
import cs336.torch.ProfilerRange;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Edge;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.Node;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The node of a checkpointed function in the autograd graph. Its inputs are those of the function, followed by one
 * placeholder for each captured edge. Its outputs are the differentiable outputs of the function.
 */
final class RecomputedFunction extends AutogradFunction {
    private final ActivationStore store;
    private final Function<Tensor[], Tensor[]> function;
    private final int inputs;
    private final int[] differentiable;
    private final int outputs;
    private final List<CapturedEdges.EdgeTarget> captured;
    private final AutocastDtypes autocast;
    private final RandomState random; // null if the function draws no random numbers
    private final long[][] shapes;
    private Tensor[] values; // of the differentiable outputs; null after the forward pass

    /**
     * @param store keeps the inputs
     * @param inputs the number of inputs of the function
     * @param differentiable the indices of the differentiable outputs
     * @param outputs the number of all outputs
     * @param captured the targets of the captured edges
     * @param random the random state before the forward pass; null if the function draws no random numbers
     * @param values the differentiable outputs without their graph
     */
    RecomputedFunction(
            ActivationStore store,
            Function<Tensor[], Tensor[]> function,
            int inputs,
            int[] differentiable,
            int outputs,
            List<CapturedEdges.EdgeTarget> captured,
            AutocastDtypes autocast,
            RandomState random,
            Tensor... values) {
        this.store = store;
        this.function = function;
        this.inputs = inputs;
        this.differentiable = differentiable;
        this.outputs = outputs;
        this.captured = captured;
        this.autocast = autocast;
        this.random = random;
        this.values = values;
        shapes = Arrays.stream(values).map(Tensors::shape).toArray(long[][]::new);
    }

    @Override
    protected Tensor[] forward(Context ctx, Tensor... all) {
        store.save(ctx, Arrays.copyOf(all, inputs));
        Tensor[] computed = values;
        values = null;
        return computed;
    }

    @Override
    protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
        boolean createGraph = GradMode.is_enabled();
        List<Edge> edges = edgesBehindInputs();
        GradMode.set_enabled(true);
        try (var range = ProfilerRange.of("recompute")) {
            Tensor[] saved = store.saved(ctx, inputs);
            Tensor[] aliases = ActivationCheckpoint.aliases(createGraph ? saved : RecordedRecomputation.inputs(saved));
            long firstSequenceNumber = torch.peek();
            Tensor[] recomputed = recompute(aliases);
            Tensor[] substitutes = CapturedEdges.redirect(recomputed, aliases, firstSequenceNumber, captured, edges);
            return gradients(recomputed, gradOutputs, aliases, substitutes, createGraph);
        } finally {
            GradMode.set_enabled(createGraph);
        }
    }

    private static Tensor[] gradients(
            Tensor[] recomputed, Tensor[] gradOutputs, Tensor[] aliases, Tensor[] substitutes, boolean createGraph) {
        var roots = new ArrayList<Tensor>();
        var rootGradients = new ArrayList<Tensor>();
        for (int i = 0; i < recomputed.length; i++) {
            if (gradOutputs[i] != null) {
                roots.add(recomputed[i]);
                rootGradients.add(gradOutputs[i]);
            }
        }
        Backward backward = Backward.of(roots.toArray(new Tensor[0])).with(rootGradients.toArray(new Tensor[0]));
        if (createGraph) {
            backward.createGraph();
        }
        Tensor[] all = Arrays.copyOf(aliases, aliases.length + substitutes.length);
        System.arraycopy(substitutes, 0, all, aliases.length, substitutes.length);
        int[] needed = IntStream.range(0, all.length)
                .filter(i -> all[i].requires_grad())
                .toArray();
        Tensor[] found =
                backward.gradients(Arrays.stream(needed).mapToObj(i -> all[i]).toArray(Tensor[]::new));
        Tensor[] gradients = new Tensor[all.length];
        for (int i = 0; i < needed.length; i++) {
            gradients[needed[i]] = found[i];
        }
        return gradients;
    }

    /** Returns the edges of this node that follow those to its inputs, one for each captured edge. */
    private List<Edge> edgesBehindInputs() {
        Node node = torch.get_current_node();
        List<Edge> edges = new ArrayList<>();
        for (int i = inputs; i < node.num_outputs(); i++) {
            edges.add(node.next_edge(i));
        }
        return edges;
    }

    /** Returns the differentiable outputs with a new graph. */
    private Tensor[] recompute(Tensor... aliases) {
        Tensor[][] all = new Tensor[1][];
        autocast.during(() -> all[0] = withRandomState(aliases));
        if (all[0].length != outputs) {
            throw new IllegalStateException(
                    "the recomputation returned " + all[0].length + " tensors, the forward pass " + outputs
                            + "; a checkpointed function must compute the same again");
        }
        Tensor[] recomputed = new Tensor[differentiable.length];
        for (int i = 0; i < recomputed.length; i++) {
            recomputed[i] = all[0][differentiable[i]];
            if (!Arrays.equals(Tensors.shape(recomputed[i]), shapes[i]) || !recomputed[i].requires_grad()) {
                throw new IllegalStateException(
                        "output " + differentiable[i] + " of the recomputation has another shape"
                                + " or graph than that of the forward pass; a checkpointed function must compute the same again");
            }
        }
        return recomputed;
    }

    private Tensor[] withRandomState(Tensor... aliases) {
        if (random == null) {
            return ActivationCheckpoint.run(function, aliases);
        }
        RandomState present = RandomState.of(aliases);
        random.restore();
        try {
            return ActivationCheckpoint.run(function, aliases);
        } finally {
            present.restore();
        }
    }
}
