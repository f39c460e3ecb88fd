package cs336.compile.fuse;

import cs336.compile.program.Argument.View;
import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.torch.Device;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The pass that joins pointwise operations and reductions into groups, each of which becomes one kernel.
 *
 * <p>In program order, each operation joins the latest group that computes one of its inputs or reads one of them. Two
 * conditions must hold: the kernel's iterations fit, and no operation outside of the group must run between operations
 * of the group. Afterwards a group recomputes a value of another group if that moves fewer bytes than the load of the
 * value and its fraction of the cost of the store. The bytes moved include the stores of values that no group had to
 * store before. This rule decides what a backward pass recomputes and what the forward pass saves.
 *
 * <p>Operations that compute operands of the same {@link Concatenation} join each other too. If one group computes all
 * of them, its kernel stores them where they are in the result, and the concatenation takes no kernel of its own.
 */
final class Fusion {
    private static final int MAX_CANDIDATES = 8;
    private static final int MAX_RECOMPUTED = 8; // operations in a row

    /** An operation that is not fused, or a group. */
    private static final class Node {
        final int number;
        final FusionGroup group;
        final Operation operation;
        /** The nodes that run earlier: producers, and readers of what this node overwrites. */
        final Set<Node> before = new LinkedHashSet<>();

        final BitSet ancestors = new BitSet();
        int position; // of the last operation
        boolean hasReaders;

        Node(int number, FusionGroup group, Operation operation) {
            this.number = number;
            this.group = group;
            this.operation = operation;
        }
    }

    private final Program program;
    private final Device device;
    private final List<Node> nodes = new ArrayList<>();
    private final Map<ProgramValue, Node> producers = new HashMap<>();
    private final Map<ProgramValue, Set<Node>> readers = new HashMap<>(); // of values, and by their roots of storages
    private final Map<ProgramValue, Integer> loads = new HashMap<>(); // the number of groups that load a value
    private final Set<ProgramValue> overwritten;
    private final Set<ProgramValue> results; // values that the program returns
    private final Map<ProgramValue, Operation> destinations; // the concatenation that a value is computed for
    private final Map<Operation, List<Node>> nodesOfDestination = new HashMap<>();
    private final Set<Operation> folded = new HashSet<>(); // concatenations that the kernel of a group stores
    private int size;

    private Fusion(Program program, Device device) {
        this.program = program;
        this.device = device;
        size = program.size();
        results = program.returned();
        overwritten = Simplification.overwritten(program);
        destinations = destinations(program);
    }

    /** Returns for each value that is only used to compute operands of one concatenation, this concatenation. */
    private static Map<ProgramValue, Operation> destinations(Program program) {
        Map<ProgramValue, Operation> destinations = new HashMap<>();
        Map<ProgramValue, Integer> uses = new HashMap<>();
        program.reads().forEach(view -> uses.merge(view.value(), 1, Integer::sum));
        for (int i = program.operations().size() - 1; i >= 0; i--) {
            Operation operation = program.operations().get(i);
            boolean isPointwise = operation.operator() instanceof PointwiseOperator;
            Operation destination = operation.operator() instanceof Concatenation
                    ? operation
                    : isPointwise ? destinations.get(operation.output()) : null;
            for (View view : destination == null ? List.<View>of() : operation.reads()) {
                if (uses.get(view.value()) == 1) {
                    destinations.put(view.value(), destination);
                }
            }
        }
        return destinations;
    }

    /** Returns the program with {@link FusedKernel} operations in place of all pointwise operations and reductions. */
    static Program of(Program program, Device device) {
        return new Fusion(program, device).run();
    }

    private Program run() {
        for (int i = 0; i < program.operations().size(); i++) {
            place(program.operations().get(i), i);
        }
        recompute();
        return program.withOperations(scheduled()).withSize(size);
    }

    // ---- grouping

    private void place(Operation operation, int position) {
        boolean isReduction = operation.operator() instanceof ReductionOperator;
        boolean isFusible = isReduction || operation.operator() instanceof PointwiseOperator;
        Set<Node> before = before(operation);
        Node node = null;
        if (isFusible) {
            for (Node candidate : candidates(operation)) {
                // The kernel of sums over rows stores nothing else.
                boolean hasResult = !candidate.group.isPerColumn() || isReduction;
                if (hasResult && !dependsOnThrough(before, candidate) && candidate.group.add(operation)) {
                    node = candidate;
                    break;
                }
            }
        }
        if (node == null) {
            FusionGroup group = isFusible ? FusionGroup.of(operation) : null;
            node = new Node(nodes.size(), group, operation);
            nodes.add(node);
        }
        node.position = position;
        register(node, operation, before);
        if (isFusible && destinations.containsKey(operation.output())) {
            nodesOfDestination
                    .computeIfAbsent(destinations.get(operation.output()), d -> new ArrayList<>())
                    .add(node);
        }
    }

    private void register(Node node, Operation operation, Set<Node> before) {
        before.remove(node);
        node.before.addAll(before);
        var inputs = new BitSet();
        for (Node earlier : before) {
            inputs.set(earlier.number);
            inputs.or(earlier.ancestors);
            earlier.hasReaders = true;
        }
        inputs.clear(node.number);
        inputs.andNot(node.ancestors);
        node.ancestors.or(inputs);
        if (node.hasReaders && !inputs.isEmpty()) { // descendants already have the other ancestors of the node
            for (Node other : nodes) {
                if (other.ancestors.get(node.number)) {
                    other.ancestors.or(inputs);
                }
            }
        }
        operation.creates().forEach(created -> producers.put(created, node));
        for (View view : operation.reads()) {
            readers.computeIfAbsent(view.value(), v -> new LinkedHashSet<>()).add(node);
            readers.computeIfAbsent(view.value().root(), v -> new LinkedHashSet<>())
                    .add(node);
        }
    }

    /** Returns the nodes that must run before an operation: producers, and readers of what it overwrites. */
    private Set<Node> before(Operation operation) {
        Set<Node> before = new LinkedHashSet<>();
        operation.reads().forEach(view -> before.add(producers.get(view.value())));
        operation.overwrites().forEach(value -> before.addAll(readers(value.root())));
        before.remove(null);
        return before;
    }

    private Set<Node> readers(ProgramValue value) {
        return readers.getOrDefault(value, Set.of());
    }

    /** Returns whether one of the nodes before an operation depends on a group and is not the group itself. */
    private static boolean dependsOnThrough(Set<Node> before, Node group) {
        return before.stream().anyMatch(node -> node != group && node.ancestors.get(group.number));
    }

    /**
     * Returns the groups that the operation could join: those that it shares most bytes with first, then the latest.
     */
    private List<Node> candidates(Operation operation) {
        Map<Node, Long> shared = new HashMap<>();
        for (View view : new HashSet<>(operation.reads())) {
            long bytes = view.layout().distinctBytes();
            Node producer = producers.get(view.value());
            if (producer != null) {
                shared.merge(producer, bytes, Long::sum);
            }
            boolean isLarge =
                    view.layout().elements() > 1 && bytes == view.layout().bytes();
            if (isLarge) { // a tensor of full size is worth loading once for two operations
                for (Node reader : readers(view.value())) {
                    if (reader != producer) {
                        shared.merge(reader, bytes, Long::sum);
                    }
                }
            }
        }
        // A kernel that computes all operands of a concatenation stores them next to each other.
        ProgramValue out = operation.output();
        nodesOfDestination
                .getOrDefault(destinations.get(out), List.of())
                .forEach(node -> shared.merge(node, out.layout().bytes(), Long::sum));
        List<Node> candidates = new ArrayList<>(shared.keySet());
        candidates.removeIf(node -> node.group == null);
        candidates.sort(Comparator.comparing((Node node) -> -shared.get(node)).thenComparing(node -> -node.position));
        return candidates.subList(0, Math.min(candidates.size(), MAX_CANDIDATES));
    }

    // ---- recomputation

    private void recompute() {
        List<Node> groups = nodes.stream().filter(node -> node.group != null).toList();
        groups.forEach(node -> node.group.inputs().forEach(input -> loads.merge(input, 1, Integer::sum)));
        for (Node reader : groups) {
            boolean changed = true;
            while (changed) {
                changed = reader.group.loads().stream().anyMatch(view -> recompute(reader, view));
            }
        }
    }

    /**
     * Adds a copy of the operation that computes a loaded value to the reader if that moves fewer bytes. The reader
     * computes no input of this operation: the two groups would depend on each other.
     */
    private boolean recompute(Node reader, View load) {
        Node producer = producers.get(load.value());
        if (producer == null || producer.group == null || producer.group.isPerColumn()) {
            return false;
        }
        Operation original = producer.group.member(load.value());
        FusionGroup group = reader.group;
        boolean isCopyable = original.operator() instanceof PointwiseOperator
                && original.reads().stream().noneMatch(view -> overwritten.contains(view.value()))
                && group.canUse(original, load.value());
        if (!isCopyable) {
            return false;
        }
        long bytes = load.layout().bytes(); // not moved with a copy: the load, and its part of the store
        long saved = isStored(load.value(), producer) ? bytes : bytes + bytes / loads.get(load.value());
        if (bytesToRead(original, group, MAX_RECOMPUTED) >= saved) {
            return false;
        }
        ProgramValue value =
                new ProgramValue(size, load.value() + "r" + size, load.value().layout());
        size++;
        Operation copy = Operation.of(original.operator(), original.arguments(), value);
        int first = 0;
        while (group.members().get(first).reads().stream().noneMatch(view -> view.value() == load.value())) {
            first++;
        }
        if (!group.add(copy, first)) {
            return false;
        }
        group.replaceLoad(load.value(), value, first + 1);
        readers.get(load.value()).remove(reader);
        copy.reads().forEach(view -> loads.merge(view.value(), 1, Integer::sum));
        register(reader, copy, before(copy));
        return true;
    }

    /**
     * Returns the bytes that a group moves in addition if it computes an operation that it does not contain.
     *
     * @param depth the number of operations in a row that it may compute
     */
    private long bytesToRead(Operation operation, FusionGroup group, int depth) {
        Set<View> loaded = group.loads();
        return operation.reads().stream()
                .distinct()
                .filter(view -> !loaded.contains(view))
                .mapToLong(view -> bytesToRead(view, group, depth - 1))
                .sum();
    }

    /** Returns the bytes of a load. If the value is not in memory, it must be stored for it, or computed again. */
    private long bytesToRead(View view, FusionGroup group, int depth) {
        long load = view.layout().distinctBytes();
        Node producer = producers.get(view.value());
        boolean isRead = readers(view.value()).stream().anyMatch(node -> node != producer);
        if (producer == null || producer.group == null || isRead || results.contains(view.value())) {
            return load;
        }
        long withStore = load + view.value().layout().bytes();
        Operation original = producer.group.member(view.value());
        boolean isComputed = depth > 0 && original.operator() instanceof PointwiseOperator;
        return isComputed ? Math.min(withStore, bytesToRead(original, group, depth)) : withStore;
    }

    /** Returns whether a value is in memory anyway, because an operation that is not fused or the caller reads it. */
    private boolean isStored(ProgramValue value, Node producer) {
        return results.contains(value)
                || readers(value).stream().anyMatch(node -> node != producer && node.group == null);
    }

    // ---- schedule

    /** Returns the operations in an order in which each runs after its inputs, otherwise in that of the program. */
    private List<Operation> scheduled() {
        foldConcatenations();
        List<Node> open = new ArrayList<>(nodes);
        open.sort(Comparator.comparing(node -> node.position));
        Set<Node> done = new HashSet<>();
        List<Operation> operations = new ArrayList<>();
        while (!open.isEmpty()) {
            Node node = open.stream()
                    .filter(waiting -> done.containsAll(waiting.before))
                    .findFirst()
                    .orElseThrow(
                            () -> new IllegalStateException("groups of the program depend on each other in a cycle"));
            open.remove(node);
            done.add(node);
            if (node.group != null) {
                operations.addAll(fused(node));
            } else if (!folded.contains(node.operation)) {
                operations.add(node.operation);
            }
        }
        return operations;
    }

    /** Lets kernels that compute all operands of a concatenation store its result. */
    private void foldConcatenations() {
        for (Node node : nodes) {
            if (node.group == null && node.operation.operator() instanceof Concatenation) {
                FusionGroup group = producers.get(node.operation.view(0).value()).group;
                if (group != null && group.addConcatenation(node.operation)) {
                    folded.add(node.operation);
                }
            }
        }
    }

    /** Returns the kernel of a group, or nothing if no operation reads its results. */
    private List<Operation> fused(Node node) {
        List<Operation> own = node.group.concatenations();
        List<ProgramValue> stored = new ArrayList<>(node.group.members().stream()
                .map(Operation::output)
                .filter(value -> results.contains(value)
                        || readers(value).stream().anyMatch(other -> other != node && !own.contains(other.operation)))
                .toList());
        List<ProgramValue> needed = new ArrayList<>(stored);
        for (Operation concatenation : own) {
            concatenation.reads().forEach(view -> needed.add(view.value()));
            stored.add(concatenation.output());
        }
        node.group.removeUnused(needed);
        return stored.isEmpty() ? List.of() : List.of(FusedKernel.of(node.group, stored, device));
    }
}
