package cs336.compile.program;

import cs336.compile.program.Argument.View;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;

/**
 * A function of tensors as a list of operations without control flow. Each operation reads values that the program
 * received or that earlier operations created.
 *
 * @param inputs the values that each call provides, in the order of the function's inputs
 * @param constants the tensors besides the inputs that the program reads or writes, such as parameters; they share
 *     storage with the tensors of the function, and the owner of the program closes them. A program derived from this
 *     one has the same tensor objects
 * @param operations the operations in the order of execution
 * @param outputs the results of the function; null for one that does not exist
 * @param size an upper bound of the ids of all values, exclusive
 */
public record Program(
        List<ProgramValue> inputs,
        Map<ProgramValue, Tensor> constants,
        List<Operation> operations,
        List<View> outputs,
        int size) {

    /** Returns the bytes that all operations read and write. */
    public long bytesMoved() {
        return operations.stream().mapToLong(Operation::bytesMoved).sum();
    }

    /** Returns whether an operation writes to an input or to a tensor that exists outside of the program. */
    public boolean writesOutside() {
        return firstWriteOutside().isPresent();
    }

    /** Returns the first operation that writes to an input or to a tensor that exists outside of the program. */
    public Optional<Operation> firstWriteOutside() {
        Set<ProgramValue> outside = outside();
        return operations.stream()
                .filter(operation ->
                        operation.overwrites().stream().map(ProgramValue::root).anyMatch(outside::contains))
                .findFirst();
    }

    /** Returns the inputs and constants: the values whose storage exists before the program runs. */
    public Set<ProgramValue> outside() {
        Set<ProgramValue> outside = new HashSet<>(inputs);
        outside.addAll(constants.keySet());
        return outside;
    }

    /** Returns whether no operation overwrites a value. */
    public boolean isPure() {
        return operations.stream().allMatch(operation -> operation.overwrites().isEmpty());
    }

    /** Returns the values that the program returns. */
    public Set<ProgramValue> returned() {
        return outputs.stream()
                .filter(Objects::nonNull)
                .map(View::value)
                .collect(Collectors.toCollection(HashSet::new));
    }

    /** Returns the views that the operations read, or write in place, in the order of execution. */
    public Stream<View> reads() {
        return operations.stream().flatMap(operation -> operation.reads().stream());
    }

    /** Returns the operation that creates each value, in the order of execution. */
    public Map<ProgramValue, Operation> producers() {
        Map<ProgramValue, Operation> producers = new LinkedHashMap<>();
        operations.forEach(operation -> operation.creates().forEach(value -> producers.put(value, operation)));
        return producers;
    }

    /** Returns the index of the operation that creates each value. */
    public Map<ProgramValue, Integer> positions() {
        Map<ProgramValue, Integer> positions = new HashMap<>();
        for (int i = 0; i < operations.size(); i++) {
            for (ProgramValue created : operations.get(i).creates()) {
                positions.put(created, i);
            }
        }
        return positions;
    }

    /**
     * Returns for each output whether it shares memory with an input, a constant or an earlier output.
     *
     * @param asStorages whether different parts of a storage count as shared memory, too
     */
    public boolean[] sharedOutputs(boolean asStorages) {
        Set<ProgramValue> outside = outside();
        Map<ProgramValue, List<View>> earlier = new HashMap<>(); // outputs, by the first value of their storage
        boolean[] isShared = new boolean[outputs.size()];
        for (int i = 0; i < isShared.length; i++) {
            View output = outputs.get(i);
            if (output != null) {
                ProgramValue root = output.value().root();
                List<View> ofStorage = earlier.computeIfAbsent(root, r -> new ArrayList<>());
                isShared[i] = outside.contains(root)
                        || ofStorage.stream().anyMatch(view -> asStorages || overlap(view, output));
                ofStorage.add(output);
            }
        }
        return isShared;
    }

    /** Returns whether two views of a storage may have an element in common. */
    private static boolean overlap(View a, View b) {
        return a.dtype() != b.dtype()
                || a.layout().offset() < b.layout().end()
                        && b.layout().offset() < a.layout().end();
    }

    /**
     * Returns for each output the number of operations after which it is complete; 0 for an output that no operation
     * computes, −1 for one that does not exist.
     */
    public int[] completions() {
        Map<ProgramValue, Integer> positions = positions();
        return outputs.stream()
                .mapToInt(output -> output == null ? -1 : 1 + positions.getOrDefault(output.value(), -1))
                .toArray();
    }

    /** Closes the constants, and with them those of all programs that have the same tensor objects. */
    public void closeConstants() {
        constants.values().forEach(Tensor::close);
    }

    /** Returns this program with other operations. */
    public Program withOperations(List<Operation> others) {
        return new Program(inputs, constants, List.copyOf(others), outputs, size);
    }

    /** Returns this program with other constants. */
    public Program withConstants(Map<ProgramValue, Tensor> others) {
        return new Program(inputs, others, operations, outputs, size);
    }

    /** Returns this program with each output replaced by the function's result for it. */
    public Program withOutputs(UnaryOperator<View> change) {
        List<View> changed = new ArrayList<>();
        outputs.forEach(view -> changed.add(view == null ? null : change.apply(view)));
        return new Program(inputs, constants, operations, changed, size);
    }

    /** Returns this program with another exclusive upper bound of value ids. */
    public Program withSize(int newSize) {
        return new Program(inputs, constants, operations, outputs, newSize);
    }

    /** Returns the program as text, below a line with the stage of its compilation and its size. */
    public String described(String stage) {
        return stage + ": " + operations.size() + " operations, " + bytesMoved() + " bytes moved\n" + this + "\n";
    }

    /** Returns the program as text: inputs, one line per operation, and outputs. */
    @Override
    public String toString() {
        var text = new StringBuilder();
        inputs.forEach(value -> text.append("input " + value + ": " + value.layout() + "\n"));
        constants.keySet().forEach(value -> text.append("constant " + value + ": " + value.layout() + "\n"));
        operations.forEach(operation -> text.append(operation).append('\n'));
        String returned = outputs.stream().map(Objects::toString).collect(Collectors.joining(", "));
        return text.append("return " + returned + "\n").toString();
    }
}
