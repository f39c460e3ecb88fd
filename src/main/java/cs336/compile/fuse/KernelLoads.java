package cs336.compile.fuse;

import cs336.compile.fuse.Access.Digit;
import cs336.compile.fuse.FusionGroup.Level;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Operation;
import cs336.compile.program.ProgramValue;
import cs336.torch.DType;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import java.util.function.Predicate;
import java.util.stream.Stream;

/**
 * The tensors that a generated kernel loads: their addresses as functions of row and column, and the accesses that load
 * VEC elements at once.
 */
final class KernelLoads {
    /** A tensor that the kernel loads, as a function of the element of the group. */
    record Load(ProgramValue value, DType dtype, Access access) {}

    private static final int MAX_VECTOR = 8;

    private final FusionGroup group;
    private final List<ProgramValue> inputs;
    private final Map<Load, String> expressions = new LinkedHashMap<>();
    private final int vector;

    /** @param outputs the values that the kernel stores */
    KernelLoads(FusionGroup group, List<ProgramValue> outputs) {
        this.group = group;
        inputs = group.inputs();
        group.members().stream()
                .flatMap(this::of)
                .forEach(load -> expressions.putIfAbsent(load, "x" + expressions.size()));
        vector = vector(outputs);
    }

    /** Returns the number of elements per access, VEC. */
    int vector() {
        return vector;
    }

    /**
     * Returns the tensors with the expressions of their elements: names, until they are {@linkplain #index indexed}.
     */
    Map<Load, String> expressions() {
        return Collections.unmodifiableMap(expressions);
    }

    /** Returns the tensors of which all columns of a row read the same element, with their expressions. */
    Map<Load, String> perRow() {
        return where(this::isPerRow);
    }

    /** Returns the chosen ones of the other tensors, with their expressions. */
    Map<Load, String> perElement(Predicate<Load> isChosen) {
        return where(load -> !isPerRow(load) && isChosen.test(load));
    }

    private Map<Load, String> where(Predicate<Load> isChosen) {
        Map<Load, String> chosen = new LinkedHashMap<>(expressions);
        chosen.keySet().removeIf(isChosen.negate());
        return chosen;
    }

    /** Replaces the name of each tensor by the expression of its element. */
    void index(BiFunction<Load, String, String> element) {
        expressions.replaceAll(element);
    }

    /** Returns the loads of the views from outside of the group that a member reads. */
    Stream<Load> of(Operation member) {
        return member.reads().stream()
                .filter(view -> group.level(view.value()) == null)
                .map(view -> of(member, view));
    }

    /** Returns the load by which a member reads a view from outside of the group. */
    Load of(Operation member, View view) {
        Access access = Access.of(member, view);
        boolean isRow = group.isPointwisePerRow(member);
        return new Load(view.value(), view.dtype(), (isRow ? access.ofRows(group.columns()) : access).joined());
    }

    /** Returns whether all columns of a row read the same element. */
    boolean isPerRow(Load load) {
        return group.hasReduction()
                && !group.isPerColumn()
                && split(load.access).digits().stream()
                        .allMatch(digit -> digit.place() >= group.columns() || digit.stride() == 0);
    }

    /** Returns whether rows read different elements. */
    boolean dependsOnRow(Load load) {
        return split(load.access).digits().stream()
                .anyMatch(digit -> digit.place() >= group.columns() && digit.stride() != 0);
    }

    /** Returns whether VEC elements are next to each other in memory, aligned to the access. */
    boolean isVector(Load load) {
        return isVector(load.dtype, load.access, start(load));
    }

    /** Returns whether an access that begins at this position reads or writes VEC elements at once. */
    boolean isVector(DType dtype, Access access, long start) {
        List<Digit> digits = split(access).digits();
        if (CudaType.inRegisters(dtype) != DType.FLOAT32 || digits.isEmpty() || start % vector != 0) {
            return false;
        }
        Digit fastest = digits.get(digits.size() - 1);
        return fastest.stride() == 1
                && fastest.size() % vector == 0
                && digits.stream().allMatch(digit -> digit == fastest || digit.stride() % vector == 0);
    }

    /** Returns the C++ type in which a loaded tensor is held: packed elements, or single numbers. */
    String held(Load load) {
        return !isPerRow(load) && isVector(load)
                ? "Elements<" + CudaType.of(load.dtype) + ", VEC>"
                : CudaType.of(CudaType.inRegisters(load.dtype));
    }

    /** Returns the declaration of a thread's elements of a loaded tensor. */
    String declaration(Load load, String name) {
        return held(load) + " " + name + (isVector(load) ? ";" : "[VEC];");
    }

    /** Returns the expression that loads the element that all columns of the current row read. */
    String rowNumber(Load load) {
        return "loadElement(" + address(load, "0") + ")";
    }

    /** Returns the pointer to the element of a loaded tensor at the current row and a column. */
    String address(Load load, String column) {
        long start = start(load);
        String name = "in" + inputs.indexOf(load.value);
        return (start == 0 ? name : "(" + name + " + " + start + ")") + " + " + address(load.access, column);
    }

    /** Returns the index expression of an access at the current row and a column. */
    String address(Access access, String column) {
        List<String> terms = new ArrayList<>();
        for (Digit digit : split(access).digits()) {
            if (digit.stride() == 0) {
                continue;
            }
            boolean ofRow = digit.place() >= group.columns();
            long place = ofRow ? digit.place() / group.columns() : digit.place();
            long all = ofRow ? group.rows() : group.columns();
            String term = ofRow ? "row" : column;
            term = place == 1 ? term : term + " / " + place;
            boolean isSlowest = place * digit.size() == all;
            term = isSlowest ? term : term + " % " + digit.size();
            boolean isProduct = place != 1 || !isSlowest;
            terms.add(digit.stride() == 1 ? term : (isProduct ? "(" + term + ")" : term) + " * " + digit.stride());
        }
        return terms.isEmpty() ? "0" : String.join(" + ", terms);
    }

    /** Splits a dimension that covers both columns and rows. */
    private Access split(Access access) {
        return access.splitAt(group.columns());
    }

    /** Returns the position of an access's first element from that of the input. */
    private static long start(Load load) {
        int reals = load.value.dtype() == DType.COMPLEX64 ? 2 : 1;
        return load.access.offset() - reals * load.value.layout().offset();
    }

    /** Returns the number of elements per access: as many as 16 bytes hold, if all rows can be divided so. */
    private int vector(List<ProgramValue> outputs) {
        Stream<DType> loaded = expressions.keySet().stream()
                .filter(load -> !isPerRow(load) && !load.access.isScalar())
                .map(Load::dtype);
        Stream<DType> stored = outputs.stream() // the level of a concatenation is null
                .filter(value -> group.level(value) == Level.ELEMENT || group.level(value) == null)
                .map(ProgramValue::dtype);
        int widest = Stream.concat(loaded, stored).mapToInt(DType::bytes).max().orElse(1);
        int vector = Math.min(MAX_VECTOR, KernelEmitter.ACCESS_BYTES / widest);
        while (group.columns() % vector != 0) {
            vector /= 2;
        }
        return vector;
    }
}
