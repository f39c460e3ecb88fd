package cs336.torch;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.LongStream;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.Graph;
import org.bytedeco.pytorch.IValue;
import org.bytedeco.pytorch.IValueVector;
import org.bytedeco.pytorch.IValueVectorConsumer;
import org.bytedeco.pytorch.JitNode;
import org.bytedeco.pytorch.LongVector;
import org.bytedeco.pytorch.Operation;
import org.bytedeco.pytorch.PointerConsumer;
import org.bytedeco.pytorch.ProfileIValueOp;
import org.bytedeco.pytorch.Symbol;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptions;
import org.bytedeco.pytorch.Tuple;
import org.bytedeco.pytorch.TupleType;
import org.bytedeco.pytorch.Type;
import org.bytedeco.pytorch.TypeVector;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;

/**
 * A factory of autograd nodes whose backward pass runs in Java, shared by all functions with the same numbers of
 * tensors.
 *
 * <p>Java cannot subclass PyTorch's {@code Node}, but TorchScript's operator {@code prim::DifferentiableGraph} creates
 * one. The operator runs a forward graph, which here only passes on the outputs that Java has computed. It saves the
 * tensors of the backward graph as PyTorch's saved variables, and runs the backward graph when gradients arrive. Here
 * the backward graph is a single {@code prim::profile_ivalue}, the only TorchScript operation that calls back.
 *
 * <p>The node is identified in C++ by a one-byte tensor whose data address is the node's number. This tensor is saved
 * with the others, so its deleter runs when the graph has released them.
 *
 * @param inputs the number of inputs of a node
 * @param outputs the number of outputs
 * @param saved the number of saved tensors that are not outputs
 * @param savedOutputs the indices of the saved outputs
 */
record DifferentiableGraph(int inputs, int outputs, int saved, List<Integer> savedOutputs) {
    /** The backward pass of one node. */
    interface BackwardPass {
        /**
         * Returns the gradients of the inputs.
         *
         * @param gradOutputs one gradient per output, each may be null
         * @param saved the saved tensors that are not outputs, then the saved outputs
         * @return one gradient per input, each may be null
         */
        Tensor[] run(Tensor[] gradOutputs, Tensor[] saved);
    }

    private record GraphNode(DifferentiableGraph graph, BackwardPass backward) {}

    static {
        Torch.load();
    }

    private static final Map<DifferentiableGraph, Operation> OPERATIONS = new ConcurrentHashMap<>();
    private static final Map<Long, GraphNode> ALIVE = new ConcurrentHashMap<>();
    private static final AtomicLong LAST_NUMBER = new AtomicLong();
    private static final long[] ONE_ELEMENT = {1};
    private static final IValue NONE = MemoryScope.keep(new IValue());
    private static final Tensor UNDEFINED = MemoryScope.keep(new Tensor());
    private static final TensorOptions BYTES = MemoryScope.keep(new TensorOptions(ScalarType.Byte));

    // JavaCPP allows ten callback objects of a type in a process, so all nodes share these two.
    private static final IValueVectorConsumer BACKWARD = MemoryScope.keep(new IValueVectorConsumer() {
        @Override
        public void call(IValueVector stack) {
            runBackward(stack);
        }
    });
    private static final PointerConsumer RELEASE = MemoryScope.keep(new PointerConsumer() {
        @Override
        public void call(Pointer number) {
            ALIVE.remove(number.address());
        }
    });

    DifferentiableGraph {
        savedOutputs = List.copyOf(savedOutputs);
    }

    /** Returns the numbers of this process's nodes that the autograd graph still holds. */
    static Set<Long> alive() {
        return Set.copyOf(ALIVE.keySet());
    }

    /**
     * Adds a node with this backward pass to the autograd graph.
     *
     * @param savedTensors the saved tensors that are not outputs
     * @return the outputs with their {@code grad_fn}, in the caller's memory scope
     */
    Tensor[] record(Tensor[] inputTensors, Tensor[] outputTensors, List<Tensor> savedTensors, BackwardPass backward) {
        Operation operation = OPERATIONS.get(this);
        if (operation == null) {
            operation = OPERATIONS.computeIfAbsent(this, DifferentiableGraph::build);
        }
        return record(operation, inputTensors, outputTensors, savedTensors, backward);
    }

    private Tensor[] record(
            Operation operation,
            Tensor[] inputTensors,
            Tensor[] outputTensors,
            List<Tensor> savedTensors,
            BackwardPass backward) {
        try (var scope = MemoryScope.open()) {
            var stack = new IValueVector();
            var box = new Box();
            for (Tensor input : inputTensors) {
                stack.push_back(box.holding(input));
            }
            for (Tensor tensor : savedTensors) {
                stack.push_back(box.holding(tensor));
            }
            for (Tensor output : outputTensors) {
                stack.push_back(box.holding(output));
            }
            long number = LAST_NUMBER.incrementAndGet();
            ALIVE.put(number, new GraphNode(this, backward));
            stack.push_back(box.holding(torch.from_blob(new Address(number), ONE_ELEMENT, RELEASE, BYTES)));
            operation.apply(stack);
            Tensor[] results = new Tensor[outputs];
            for (int i = 0; i < outputs; i++) {
                results[i] = scope.escape(tensor(stack, i));
            }
            return results;
        }
    }

    /**
     * Runs the backward pass of the node on the stack and replaces the arguments by the tuple of gradients. The
     * arguments are the output gradients, the saved tensors, the saved outputs, the node's number, and a frame id that
     * TorchScript adds.
     */
    private static void runBackward(IValueVector stack) {
        try (var scope = MemoryScope.open()) {
            long position = stack.size() - 2;
            GraphNode node = ALIVE.get(stack.get(position).toTensor().data_ptr().address());
            DifferentiableGraph graph = node.graph;
            Tensor[] saved = new Tensor[graph.saved + graph.savedOutputs.size()];
            for (int i = saved.length - 1; i >= 0; i--) {
                saved[i] = tensor(stack, --position);
            }
            Tensor[] gradOutputs = new Tensor[graph.outputs];
            for (int i = gradOutputs.length - 1; i >= 0; i--) {
                Tensor gradient = tensor(stack, --position);
                gradOutputs[i] = gradient.defined() ? gradient : null;
            }
            var gradInputs = new IValueVector();
            var box = new Box();
            for (Tensor gradient : node.backward.run(gradOutputs, saved)) {
                gradInputs.push_back(gradient == null ? NONE : box.holding(gradient));
            }
            stack.resize(position);
            stack.push_back(new IValue(Tuple.create(gradInputs)));
        } catch (Throwable thrown) {
            throw NativeCrossing.wrap(thrown);
        }
    }

    /** Returns the tensor at a position as a new object, because the object of the presets points into the stack. */
    private static Tensor tensor(IValueVector stack, long position) {
        return new Tensor(stack.get(position).toTensor());
    }

    private Operation build() {
        try (var scope = MemoryScope.open()) {
            var outer = new Graph();
            JitNode node = outer.create(Symbol.prim("DifferentiableGraph"), outputs);
            int numberOutput = outputs; // the forward graph's last output, visible only to the backward graph
            for (int i = 0; i < inputs + saved + outputs + 1; i++) {
                node.addInput(outer.addInput("value" + i));
            }
            outer.appendNode(node);
            node.g_(Symbol.attr("Subgraph"), forwardGraph());
            node.g_(Symbol.attr("ReverseSubgraph"), backwardGraph());
            node.i_(Symbol.attr("f_real_outputs"), outputs);
            node.is_(Symbol.attr("df_input_vjps"), longs(LongStream.range(0, outputs)));
            node.is_(Symbol.attr("df_input_captured_inputs"), longs(LongStream.range(inputs, inputs + saved)));
            node.is_(
                    Symbol.attr("df_input_captured_outputs"),
                    longs(LongStream.concat(
                            savedOutputs.stream().mapToLong(Integer::longValue), LongStream.of(numberOutput))));
            node.is_(Symbol.attr("df_output_vjps"), longs(LongStream.range(0, inputs)));

            Operation operation = MemoryScope.keep(node.getOperation());
            fixPlan(operation);
            return operation;
        }
    }

    private Graph forwardGraph() {
        var graph = new Graph();
        for (int i = 0; i < inputs; i++) {
            graph.addInput("input" + i);
        }
        for (int i = 0; i < saved; i++) {
            graph.addInput("saved" + i);
        }
        for (int i = 0; i < outputs; i++) {
            graph.registerOutput(graph.addInput("output" + i));
        }
        graph.registerOutput(graph.addInput("number"));
        return graph;
    }

    private Graph backwardGraph() {
        var graph = new Graph();
        var callback = new ProfileIValueOp(graph, BACKWARD);
        callback.retainReference();
        callback.deallocate(false); // the graph owns it
        for (int i = 0; i < outputs; i++) {
            callback.addInput(graph.addInput("gradOutput" + i));
        }
        for (int i = 0; i < saved + savedOutputs.size(); i++) {
            callback.addInput(graph.addInput("saved" + i));
        }
        callback.addInput(graph.addInput("number"));
        var gradInputs = new TypeVector();
        for (int i = 0; i < inputs; i++) {
            gradInputs.push_back(new Type.TypePtr(graph.inputs().get(0).type()));
        }
        graph.appendNode(callback);
        graph.registerOutput(callback.addOutput().setType(new Type.TypePtr(TupleType.create(gradInputs))));
        return graph;
    }

    /**
     * Runs the operation until TorchScript ends its profiling phase and fixes the execution plan. This must happen
     * while the backward pass records no graph: otherwise TorchScript removes all profiling operations at the end of
     * the phase, including the callback.
     */
    private void fixPlan(Operation operation) {
        for (long run = 0; run <= torch.getNumProfiledRuns().get(); run++) {
            Tensor[] leaves = new Tensor[inputs];
            for (int i = 0; i < inputs; i++) {
                leaves[i] = torch.ones(1).set_requires_grad(true);
            }
            BackwardPass noGradients = (gradOutputs, savedTensors) -> new Tensor[inputs];
            record(operation, leaves, ones(outputs), List.of(ones(saved)), noGradients)[0].backward();
        }
    }

    private static Tensor[] ones(int count) {
        Tensor[] tensors = new Tensor[count];
        for (int i = 0; i < count; i++) {
            tensors[i] = torch.ones(1);
        }
        return tensors;
    }

    private static LongVector longs(LongStream values) {
        return new LongVector(values.toArray());
    }

    /**
     * An {@code IValue} that is reused for one tensor after another. Creating a native {@code IValue} per tensor takes
     * three times as long.
     */
    private static final class Box {
        private final IValue value = new IValue(UNDEFINED);
        private final Tensor content = value.toTensor(); // refers to the tensor inside the value

        IValue holding(Tensor tensor) {
            content.put(tensor);
            return value;
        }
    }

    /** A pointer that carries a number as its address. */
    private static final class Address extends Pointer {
        Address(long address) {
            super((Pointer) null);
            this.address = address;
        }
    }
}
