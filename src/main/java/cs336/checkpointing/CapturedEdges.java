package cs336.checkpointing;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.bytedeco.pytorch.Edge;
import org.bytedeco.pytorch.EdgeVector;
import org.bytedeco.pytorch.InputMetadata;
import org.bytedeco.pytorch.Node;
import org.bytedeco.pytorch.RecordFunction;
import org.bytedeco.pytorch.SymIntArrayRef;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The edges from the autograd graph of a function to tensors that the function uses but does not receive, such as the
 * parameters of a layer.
 *
 * <p>{@link #find} finds them in the graph of the forward pass. {@link #redirect} cuts the graph of the recomputation
 * off at these edges. Otherwise the backward pass of the recomputation would run the tensor hooks of parameters in
 * addition to the backward pass of the whole graph.
 */
final class CapturedEdges {
    /** The target of an edge: the address of a node and the index of its input. */
    record EdgeTarget(long node, int input) {
        static EdgeTarget of(Edge edge) {
            return new EdgeTarget(edge.function().address(), edge.input_nr());
        }
    }

    /** Decides where a walk through a graph ends. */
    @FunctionalInterface
    private interface EdgeVisitor {
        /** Returns whether the walk continues at the target of edge {@code i} of a node. */
        boolean enters(EdgeVector edges, int i, Edge edge, Node target);
    }

    private static final long[] SCALAR = {};

    private CapturedEdges() {}

    /**
     * Returns the captured edges of a graph, each once, in the caller's memory scope.
     *
     * @param outputs the outputs of the function
     * @param aliases the tensors that the function received
     * @param firstSequenceNumber the sequence number of the first node that the function could create
     */
    static List<Edge> find(Tensor[] outputs, Tensor[] aliases, long firstSequenceNumber) {
        Set<Long> inputs = nodes(aliases);
        Set<EdgeTarget> seen = new HashSet<>();
        List<Edge> captured = new ArrayList<>();
        walk(outputs, (edges, i, edge, target) -> {
            boolean inside = isInside(target, firstSequenceNumber);
            if (!inside && !inputs.contains(target.address()) && seen.add(EdgeTarget.of(edge))) {
                captured.add(new Edge(target, edge.input_nr()));
            }
            return inside;
        });
        return captured;
    }

    /**
     * Replaces captured edges of a graph by edges to new tensors, which then receive the gradients.
     *
     * @param firstSequenceNumber as for {@link #find}
     * @param targets the targets of the edges that {@link #find} found in an equal graph
     * @param edges the same edges; those that an enclosing recomputation has redirected lead to the target indirectly
     * @return one tensor for each captured edge, in the caller's memory scope; its own graph is the edge
     * @throws IllegalStateException if one of these edges is missing, or another edge leads out of the function to a
     *     tensor that is not an alias
     */
    static Tensor[] redirect(
            Tensor[] outputs, Tensor[] aliases, long firstSequenceNumber, List<EdgeTarget> targets, List<Edge> edges) {
        Set<Long> inputs = nodes(aliases);
        Map<EdgeTarget, Integer> indices = new HashMap<>();
        Set<Long> addresses = new HashSet<>();
        Set<Integer> found = new HashSet<>();
        Tensor[] substitutes = new Tensor[targets.size()];
        Edge[] redirected = new Edge[substitutes.length];
        for (int i = 0; i < substitutes.length; i++) {
            indices.put(targets.get(i), i);
            addresses.add(targets.get(i).node());
            Edge original = original(edges.get(i), targets.get(i));
            Tensor leaf = placeholder(original);
            substitutes[i] = leaf.view_as(leaf);
            Node node = substitutes[i].grad_fn();
            node.set_next_edge(0, original);
            redirected[i] = new Edge(node, 0);
        }
        walk(outputs, (next, i, edge, target) -> {
            if (addresses.contains(target.address())) {
                Integer index = indices.get(EdgeTarget.of(edge));
                if (index != null) {
                    found.add(index);
                    next.put(i, redirected[index]);
                    return false;
                }
            }
            if (inputs.contains(target.address())) {
                return false;
            }
            if (!isInside(target, firstSequenceNumber)) {
                throw new IllegalStateException("the recomputation used a tensor that requires a gradient and that the"
                        + " forward pass did not use; a checkpointed function must compute the same again");
            }
            return true;
        });
        if (found.size() < substitutes.length) {
            throw new IllegalStateException(
                    "the recomputation did not use a tensor that requires a gradient and that the"
                            + " forward pass used; a checkpointed function must compute the same again");
        }
        return substitutes;
    }

    /**
     * Returns the edge before it was redirected. A substitute must lead directly to the target: the engine prunes nodes
     * by their distance from the leaves, and a longer path would exceed the distance of the nodes that lead to the
     * substitute.
     */
    private static Edge original(Edge edge, EdgeTarget target) {
        Edge original = edge;
        while (!EdgeTarget.of(original).equals(target)) {
            original = original.function().next_edge(0);
        }
        return original;
    }

    /**
     * Returns a leaf that requires a gradient, with the shape, dtype and device of the tensor to which an edge leads.
     * It has one element in memory.
     */
    static Tensor placeholder(Edge edge) {
        InputMetadata metadata = edge.function().input_metadata(edge.input_nr());
        SymIntArrayRef sizes = metadata.shape_as_dim_vector();
        long[] shape = new long[Math.toIntExact(sizes.size())];
        for (int i = 0; i < shape.length; i++) {
            shape[i] = sizes.at(i).expect_int();
        }
        return torch.empty(SCALAR, metadata.options(), null).expand(shape).set_requires_grad(true);
    }

    /** Returns whether this thread has created a node since then. Each thread numbers its own nodes. */
    private static boolean isInside(Node node, long firstSequenceNumber) {
        return node.sequence_nr() >= firstSequenceNumber // -1 for leaves
                && node.thread_id() == RecordFunction.currentThreadId();
    }

    private static Set<Long> nodes(Tensor[] aliases) {
        Set<Long> nodes = new HashSet<>();
        for (Tensor alias : aliases) {
            if (alias.requires_grad()) {
                nodes.add(alias.grad_fn().address());
            }
        }
        return nodes;
    }

    private static void walk(Tensor[] outputs, EdgeVisitor visitor) {
        Set<Long> visited = new HashSet<>();
        Deque<Node> open = new ArrayDeque<>();
        for (Tensor output : outputs) {
            Node root = output.grad_fn();
            if (visited.add(root.address())) {
                open.push(root);
            }
        }
        while (!open.isEmpty()) {
            Node node = open.pop();
            EdgeVector edges = node.next_edges();
            int count = node.num_outputs();
            for (int i = 0; i < count; i++) {
                Edge edge = edges.get(i);
                if (!edge.is_valid()) {
                    continue;
                }
                Node target = edge.function();
                if (!visited.contains(target.address()) && visitor.enters(edges, i, edge, target)) {
                    visited.add(target.address());
                    open.push(target);
                }
            }
        }
    }
}
