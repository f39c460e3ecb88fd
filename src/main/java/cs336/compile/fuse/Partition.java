package cs336.compile.fuse;

import cs336.compile.program.Argument.View;
import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.torch.Device;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;

/**
 * A recorded forward and backward pass, split into two programs. The backward pass receives saved values of the forward
 * pass, and may recompute others from them.
 *
 * <p>The saved values are those with the fewest bytes from which the backward pass can compute what it needs, with
 * pointwise operations only. They are the minimum cut between the inputs of the function and the operations that depend
 * on gradients. Inputs cost nothing, since they are in memory anyway. PyTorch's AOTAutograd has the same rule:
 * {@code min_cut_rematerialization_partition}.
 *
 * @param forward inputs → outputs, then the saved values and the constants that the backward pass reads
 * @param backward saved values and constants, then gradients of the outputs → gradients of the inputs
 */
public record Partition(Program forward, Program backward) {
    private static final long INFINITE = Long.MAX_VALUE / 4;

    /**
     * Splits a program.
     *
     * @param joint its inputs are those of the function, then the gradients of the outputs; its outputs are those of
     *     the function, then the gradients of the inputs
     * @param inputs the number of inputs of the function
     * @param outputs the number of its outputs
     * @return empty if the program writes in place to a value that does not depend on the gradients of the outputs, or
     *     if an output of the function depends on them
     */
    public static Optional<Partition> of(Program joint, int inputs, int outputs) {
        return new Cut(joint, inputs, outputs).partition();
    }

    /** Returns why {@link #of} cannot split a program. */
    public static String obstacle(Program joint, int inputs, int outputs) {
        return new Cut(joint, inputs, outputs)
                .writeToForwardValue()
                .map(write -> "it writes in place to an intermediate tensor: " + write)
                .orElse("an output depends on gradients of the outputs");
    }

    /** Returns this partition with fused programs. */
    public Partition fused(Device device) {
        return new Partition(FusionPasses.fusePrepared(forward, device), FusionPasses.fusePrepared(backward, device));
    }

    private static final class Cut {
        private static final int SOURCE = -1; // vertices; those of values are not negative
        private static final int SINK = -2;

        private final Program joint;
        private final List<ProgramValue> primals;
        private final List<ProgramValue> tangents;
        private final List<View> results;
        private final List<View> gradients;
        private final Map<ProgramValue, Operation> producers;
        private final Set<ProgramValue> ofTangents = new HashSet<>(); // computed from gradients of outputs
        private final Map<ProgramValue, Integer> numbers = new LinkedHashMap<>(); // of the values in the graph
        private final Map<Integer, Map<Integer, Long>> capacities = new HashMap<>(); // free ones, by start and end

        Cut(Program joint, int inputs, int outputs) {
            this.joint = joint;
            producers = joint.producers();
            primals = joint.inputs().subList(0, inputs);
            tangents = joint.inputs().subList(inputs, joint.inputs().size());
            results = joint.outputs().subList(0, outputs);
            gradients = joint.outputs().subList(outputs, joint.outputs().size());
            ofTangents.addAll(tangents);
            for (Operation operation : joint.operations()) {
                if (operation.reads().stream().anyMatch(view -> ofTangents.contains(view.value()))) {
                    ofTangents.addAll(operation.creates());
                }
            }
        }

        Optional<Partition> partition() {
            boolean readsTangents =
                    results.stream().filter(Objects::nonNull).anyMatch(view -> ofTangents.contains(view.value()));
            if (readsTangents || writeToForwardValue().isPresent()) {
                return Optional.empty();
            }
            Set<ProgramValue> saved = minimumCut();
            Program fromSaved = Simplification.withoutDeadOperations(
                    new Program(List.copyOf(saved), Map.of(), joint.operations(), gradients, joint.size()));
            Set<ProgramValue> needed = fromSaved.returned();
            fromSaved.reads().forEach(view -> needed.add(view.value()));
            List<ProgramValue> loaded = needed.stream()
                    .filter(value -> saved.contains(value)
                            || primals.contains(value)
                            || joint.constants().containsKey(value))
                    .sorted(Comparator.comparing(ProgramValue::id))
                    .toList();
            List<View> forwardOutputs = new ArrayList<>(results);
            loaded.forEach(value -> forwardOutputs.add(new View(value)));
            List<ProgramValue> backwardInputs = new ArrayList<>(loaded);
            backwardInputs.addAll(tangents);
            var backward = new Program(backwardInputs, Map.of(), fromSaved.operations(), gradients, joint.size());
            Program forward = Simplification.withoutDeadOperations(
                    new Program(primals, joint.constants(), joint.operations(), forwardOutputs, joint.size()));
            return Optional.of(new Partition(forward, backward));
        }

        Optional<Operation> writeToForwardValue() {
            return joint.operations().stream()
                    .filter(operation ->
                            operation.overwrites().stream().anyMatch(value -> !ofTangents.contains(value.root())))
                    .findFirst();
        }

        // ---- minimum cut

        /** Returns the values to save: those whose edge the cut goes through. */
        private Set<ProgramValue> minimumCut() {
            for (Operation operation : joint.operations()) {
                boolean isBackward = operation.creates().stream().anyMatch(ofTangents::contains);
                for (View view : operation.reads()) {
                    ProgramValue read = view.value();
                    if (ofTangents.contains(read) || isConstant(read)) {
                        continue;
                    }
                    if (isBackward) {
                        connect(out(read), SINK, INFINITE);
                    } else {
                        operation.creates().forEach(value -> connect(out(read), in(value), INFINITE));
                    }
                }
            }
            for (View gradient : gradients) {
                if (gradient != null && !ofTangents.contains(gradient.value()) && !isConstant(gradient.value())) {
                    connect(out(gradient.value()), SINK, INFINITE);
                }
            }
            Set<Integer> reachable = saturate();
            Set<ProgramValue> saved = new HashSet<>(numbers.keySet());
            saved.removeIf(value -> !reachable.contains(in(value)) || reachable.contains(out(value)));
            return saved;
        }

        private boolean isConstant(ProgramValue value) {
            return joint.constants().containsKey(value.root());
        }

        private int in(ProgramValue value) {
            return 2 * number(value);
        }

        private int out(ProgramValue value) {
            return 2 * number(value) + 1;
        }

        /**
         * Returns the number of a value's two vertices. The first call adds them to the graph, with an edge between
         * them whose capacity is the cost of saving the value.
         */
        private int number(ProgramValue value) {
            if (!numbers.containsKey(value)) {
                numbers.put(value, numbers.size());
                boolean isPrimal = primals.contains(value);
                connect(in(value), out(value), isPrimal ? 1 : 1 + value.layout().bytes());
                Operation producer = producers.get(value);
                boolean isRecomputable = producer != null && producer.operator() instanceof PointwiseOperator;
                if (!isRecomputable) {
                    connect(SOURCE, in(value), INFINITE);
                }
            }
            return numbers.get(value);
        }

        private void connect(int from, int to, long capacity) {
            capacities.computeIfAbsent(from, v -> new HashMap<>()).put(to, capacity);
            capacities.computeIfAbsent(to, v -> new HashMap<>()).putIfAbsent(from, 0L);
        }

        /**
         * Pushes flow along shortest paths until there is none left, by Edmonds and Karp's method.
         *
         * @return the vertices that edges with free capacity still lead to
         */
        private Set<Integer> saturate() {
            Map<Integer, Integer> predecessors = search();
            while (predecessors.containsKey(SINK)) {
                long flow = INFINITE;
                for (int v = SINK; v != SOURCE; v = predecessors.get(v)) {
                    flow = Math.min(flow, capacities.get(predecessors.get(v)).get(v));
                }
                for (int v = SINK; v != SOURCE; v = predecessors.get(v)) {
                    capacities.get(predecessors.get(v)).merge(v, -flow, Long::sum);
                    capacities.get(v).merge(predecessors.get(v), flow, Long::sum);
                }
                predecessors = search();
            }
            return predecessors.keySet();
        }

        /** Returns the predecessor of each vertex on a shortest path to it, at most until the sink is reached. */
        private Map<Integer, Integer> search() {
            Map<Integer, Integer> predecessors = new HashMap<>();
            var open = new ArrayDeque<Integer>(List.of(SOURCE));
            while (!open.isEmpty() && !predecessors.containsKey(SINK)) {
                int vertex = open.poll();
                capacities.getOrDefault(vertex, Map.of()).forEach((next, capacity) -> {
                    if (capacity > 0 && next != SOURCE && predecessors.putIfAbsent(next, vertex) == null) {
                        open.add(next);
                    }
                });
            }
            return predecessors;
        }
    }
}
