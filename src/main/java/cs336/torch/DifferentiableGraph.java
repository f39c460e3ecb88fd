package cs336.torch;

import java.util.List;
import java.util.Map;
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
 * Nodes of PyTorch's graph whose backward pass is Java, for all functions with these numbers of tensors.
 *
 * <p>Java cannot subclass PyTorch's {@code Node}, but TorchScript's operator {@code prim::DifferentiableGraph} makes
 * one. It runs a forward graph (ours only hands on the outputs that Java has computed), saves what the backward graph
 * needs as PyTorch's own saved variables, and runs the backward graph when gradients arrive. Ours is a single
 * {@code prim::profile_ivalue}, the one operation of TorchScript that calls back.
 *
 * <p>Which node is meant travels through C++ as a tensor of one byte whose address is the node's number. It is saved
 * with the other tensors, so its deleter tells when the graph has let go of them.
 *
 * @param inputs how many inputs a node has
 * @param outputs how many outputs
 * @param saved how many tensors it saves that are none of its outputs
 * @param savedOutputs which of its outputs it saves
 */
record DifferentiableGraph(int inputs, int outputs, int saved, List<Integer> savedOutputs) {
    /** The backward pass of one node. */
    interface BackwardPass {
        /**
         * @param gradOutputs one for each output, or null
         * @param saved tensors, then outputs
         * @return one gradient for each input, or null
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

    // JavaCPP has room for ten callbacks of a type in a process: all nodes share these two.
    private static final IValueVectorConsumer BACKWARD = MemoryScope.keep(new IValueVectorConsumer() {
        @Override
        public void call(IValueVector stack) {
            answer(stack);
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

    /** How many nodes of this process may still be asked for gradients. */
    static int alive() {
        return ALIVE.size();
    }

    /**
     * Makes a node with this backward pass between these inputs and outputs.
     *
     * @param savedTensors those that are no outputs
     * @return the outputs as the graph knows them, in the caller's memory scope
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
            IValueVector stack = new IValueVector();
            Box box = new Box();
            for (Tensor input : inputTensors) {
                stack.push_back(box.with(input));
            }
            for (Tensor tensor : savedTensors) {
                stack.push_back(box.with(tensor));
            }
            for (Tensor output : outputTensors) {
                stack.push_back(box.with(output));
            }
            long number = LAST_NUMBER.incrementAndGet();
            ALIVE.put(number, new GraphNode(this, backward));
            stack.push_back(box.with(torch.from_blob(new Address(number), ONE_ELEMENT, RELEASE, BYTES)));
            operation.apply(stack);
            Tensor[] results = new Tensor[outputs];
            for (int i = 0; i < outputs; i++) {
                results[i] = scope.escape(tensor(stack, i));
            }
            return results;
        }
    }

    /**
     * Runs the backward pass of the node whose arguments are on the stack, and puts the tuple of its gradients in their
     * place. The arguments: gradients, saved tensors, saved outputs, the node's number, and the frame's, which
     * TorchScript adds.
     */
    private static void answer(IValueVector stack) {
        try (var scope = MemoryScope.open()) {
            long place = stack.size() - 2;
            GraphNode node = ALIVE.get(stack.get(place).toTensor().data_ptr().address());
            DifferentiableGraph graph = node.graph;
            Tensor[] saved = new Tensor[graph.saved + graph.savedOutputs.size()];
            for (int i = saved.length - 1; i >= 0; i--) {
                saved[i] = tensor(stack, --place);
            }
            Tensor[] gradOutputs = new Tensor[graph.outputs];
            for (int i = gradOutputs.length - 1; i >= 0; i--) {
                Tensor gradient = tensor(stack, --place);
                gradOutputs[i] = gradient.defined() ? gradient : null;
            }
            IValueVector gradInputs = new IValueVector();
            Box box = new Box();
            for (Tensor gradient : node.backward.run(gradOutputs, saved)) {
                gradInputs.push_back(gradient == null ? NONE : box.with(gradient));
            }
            stack.resize(place);
            stack.push_back(new IValue(Tuple.create(gradInputs)));
        } catch (Throwable thrown) {
            throw NativeCrossing.leave(thrown);
        }
    }

    /** A handle of its own: what the presets return points into the stack. */
    private static Tensor tensor(IValueVector stack, long place) {
        return new Tensor(stack.get(place).toTensor());
    }

    private Operation build() {
        try (var scope = MemoryScope.open()) {
            Graph around = new Graph();
            JitNode node = around.create(Symbol.prim("DifferentiableGraph"), outputs);
            int numberOutput = outputs; // the last output of the forward graph, which only the backward graph sees
            for (int i = 0; i < inputs + saved + outputs + 1; i++) {
                node.addInput(around.addInput("value" + i));
            }
            around.appendNode(node);
            node.g_(Symbol.attr("Subgraph"), forwardGraph());
            node.g_(Symbol.attr("ReverseSubgraph"), backwardGraph());
            node.i_(Symbol.attr("f_real_outputs"), outputs);
            node.is_(Symbol.attr("df_input_vjps"), numbers(LongStream.range(0, outputs)));
            node.is_(Symbol.attr("df_input_captured_inputs"), numbers(LongStream.range(inputs, inputs + saved)));
            node.is_(
                    Symbol.attr("df_input_captured_outputs"),
                    numbers(LongStream.concat(
                            savedOutputs.stream().mapToLong(Integer::longValue), LongStream.of(numberOutput))));
            node.is_(Symbol.attr("df_output_vjps"), numbers(LongStream.range(0, inputs)));

            Operation operation = MemoryScope.keep(node.getOperation());
            freeze(operation);
            return operation;
        }
    }

    private Graph forwardGraph() {
        Graph graph = new Graph();
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
        Graph graph = new Graph();
        ProfileIValueOp callback = new ProfileIValueOp(graph, BACKWARD);
        callback.retainReference();
        callback.deallocate(false); // the graph owns it
        for (int i = 0; i < outputs; i++) {
            callback.addInput(graph.addInput("gradOutput" + i));
        }
        for (int i = 0; i < saved + savedOutputs.size(); i++) {
            callback.addInput(graph.addInput("saved" + i));
        }
        callback.addInput(graph.addInput("number"));
        TypeVector gradInputs = new TypeVector();
        for (int i = 0; i < inputs; i++) {
            gradInputs.push_back(new Type.TypePtr(graph.inputs().get(0).type()));
        }
        graph.appendNode(callback);
        graph.registerOutput(callback.addOutput().setType(new Type.TypePtr(TupleType.create(gradInputs))));
        return graph;
    }

    /**
     * Runs the operation until TorchScript has profiled enough and fixes its plan. That has to happen while the
     * backward pass records no graph of its own: otherwise profiling ends with the removal of its operations, ours
     * among them.
     */
    private void freeze(Operation operation) {
        for (long run = 0; run <= torch.getNumProfiledRuns().get(); run++) {
            Tensor[] ones = new Tensor[inputs];
            for (int i = 0; i < inputs; i++) {
                ones[i] = torch.ones(1).set_requires_grad(true);
            }
            BackwardPass nothing = (gradOutputs, savedTensors) -> new Tensor[inputs];
            record(operation, ones, some(outputs), List.of(some(saved)), nothing)[0].backward();
        }
    }

    private static Tensor[] some(int count) {
        Tensor[] tensors = new Tensor[count];
        for (int i = 0; i < count; i++) {
            tensors[i] = torch.ones(1);
        }
        return tensors;
    }

    private static LongVector numbers(LongStream numbers) {
        return new LongVector(numbers.toArray());
    }

    /**
     * A value with a tensor in it, one after the other: for each a value of its own, a native object, would take three
     * times as long.
     */
    private static final class Box {
        private final IValue value = new IValue(UNDEFINED);
        private final Tensor content = value.toTensor(); // where it lies in the value

        IValue with(Tensor tensor) {
            content.put(tensor);
            return value;
        }
    }

    /** A pointer to nowhere, for its address alone. */
    private static final class Address extends Pointer {
        Address(long address) {
            super((Pointer) null);
            this.address = address;
        }
    }
}
