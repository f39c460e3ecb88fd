package cs336.compile.fuse;

import cs336.compile.fuse.FusionGroup.Level;
import cs336.compile.fuse.KernelLoads.Load;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Operation;
import cs336.compile.program.ProgramValue;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The text of generated kernels for a group while it is written: lines, names, parameters, and the statements that load
 * tensors and compute members. {@link KernelLoads} determines the addresses, {@link MemberExpressions} the arithmetic.
 */
final class KernelCode {
    /** A tensor that the kernel stores for each element, in the dtype of the member. */
    record ElementStore(Operation member, String output, Access access) {}

    private final FusionGroup group;
    private final List<ProgramValue> inputs;
    private final List<ProgramValue> outputs;
    private final List<Operation> columnSums;
    private final KernelLoads loads;
    private final MemberExpressions expressions;
    private final StringBuilder text = new StringBuilder();

    KernelCode(FusionGroup group, List<ProgramValue> outputs) {
        this.group = group;
        this.outputs = outputs;
        inputs = group.inputs();
        columnSums = members(member -> group.level(member) == Level.COLUMN);
        loads = new KernelLoads(group, outputs);
        expressions = new MemberExpressions(group, loads);
    }

    FusionGroup group() {
        return group;
    }

    KernelLoads loads() {
        return loads;
    }

    MemberExpressions expressions() {
        return expressions;
    }

    /** Returns the members that are sums over the rows. */
    List<Operation> columnSums() {
        return columnSums;
    }

    // ---- text

    /** Appends lines. */
    void line(String lines) {
        text.append(lines).append('\n');
    }

    /** Returns the number of characters so far. */
    int length() {
        return text.length();
    }

    /** Removes what follows this number of characters. */
    void truncate(int length) {
        text.setLength(length);
    }

    @Override
    public String toString() {
        return text.toString();
    }

    /**
     * Appends the includes and the constants of all kernels.
     *
     * @param tile definitions of further constants, separated by commas
     */
    void preamble(String tile) {
        line("#define VEC " + loads.vector());
        line("#include \"fused.cuh\"");
        if (group.members().stream().anyMatch(member -> member.operator() == PointwiseOperator.RANDOM)) {
            line("#include \"random.cuh\"");
        }
        line("");
        line("constexpr long long ROWS = " + group.rows() + ", COLUMNS = " + group.columns() + ";");
        line("constexpr int " + tile + ";");
        line("");
    }

    // ---- names

    /** Returns a number for names in the source, which is the same in equal groups. */
    int id(Operation member) {
        return group.indexOf(member.output());
    }

    /** Returns the parameter to which the kernel writes the result of an operation. */
    String output(Operation operation) {
        return "out" + outputs.indexOf(operation.output());
    }

    /** Returns the parameters of all kernels of the group: inputs, partial sums and outputs. */
    String parameters() {
        List<String> parameters = new ArrayList<>();
        for (int i = 0; i < inputs.size(); i++) {
            parameters.add("const " + CudaType.of(inputs.get(i).dtype()) + " *__restrict__ in" + i);
        }
        columnSums.forEach(sum -> parameters.add(CudaType.ofComputation(sum) + " *__restrict__ partial" + id(sum)));
        for (int i = 0; i < outputs.size(); i++) {
            parameters.add(CudaType.of(outputs.get(i).dtype()) + " *__restrict__ out" + i);
        }
        return String.join(", ", parameters);
    }

    // ---- members

    /** Returns the chosen members of the group, in order. */
    List<Operation> members(Predicate<Operation> isChosen) {
        return group.members().stream().filter(isChosen).toList();
    }

    /** Returns the members of element level that these members read, directly or not, in order. */
    List<Operation> needed(List<Operation> readers) {
        Set<ProgramValue> read = new HashSet<>();
        readers.forEach(reader -> reader.reads().forEach(view -> read.add(view.value())));
        for (int i = group.members().size() - 1; i >= 0; i--) { // readers follow what they read
            Operation member = group.members().get(i);
            if (group.level(member) == Level.ELEMENT && read.contains(member.output())) {
                member.reads().forEach(view -> read.add(view.value()));
            }
        }
        return members(member -> group.level(member) == Level.ELEMENT && read.contains(member.output()));
    }

    /** Returns the loads of these members and of the elements that they need. */
    Set<Load> loadsOf(List<Operation> readers) {
        return Stream.concat(readers.stream(), needed(readers).stream())
                .flatMap(loads::of)
                .collect(Collectors.toSet());
    }

    /** Appends members that compute one number per element, each as an array of VEC numbers. */
    void elements(List<Operation> members, String indent) {
        for (Operation member : members) {
            String name = "v" + id(member);
            line(indent + CudaType.ofResult(member) + " " + name + "[VEC];");
            if (member.operator() == PointwiseOperator.COMPLEX_MUL) {
                String a = expressions.operand(member, member.arguments().get(0));
                String b = expressions.operand(member, member.arguments().get(1));
                line("#pragma unroll");
                line(indent + "for (int i = 0; i < VEC; i += 2) {");
                line(indent + "    " + name + "[i] = " + a + " * " + b + " - " + next(a) + " * " + next(b) + ";");
                line(indent + "    " + name + "[i + 1] = " + a + " * " + next(b) + " + " + next(a) + " * " + b + ";");
                line(indent + "}");
            } else if (drawsBlocks(member)) {
                String arguments = member.arguments().stream()
                        .map(argument -> expressions.operand(member, argument))
                        .collect(Collectors.joining(", "));
                line("#pragma unroll");
                line(indent + "for (int i = 0; i < VEC; i += 4) philoxBlock(" + arguments + ", " + name + " + i);");
            } else {
                line(indent + "EACH(i) " + name + "[i] = " + expressions.of(member) + ";");
            }
        }
    }

    private static String next(String operand) {
        return operand.replace("[i]", "[i + 1]");
    }

    /**
     * Returns whether a member draws four random numbers at a time. VEC divides the columns, so the index of the first
     * one is a multiple of four.
     */
    private boolean drawsBlocks(Operation member) {
        return member.operator() == PointwiseOperator.RANDOM
                && loads.vector() % 4 == 0
                && group.level(member.view(2).value()) == Level.ELEMENT;
    }

    // ---- loads and stores

    /** Returns the members of a level that the kernel stores. */
    List<Operation> stored(Level level) {
        return members(member -> group.level(member) == level && outputs.contains(member.output()));
    }

    /** Returns the stores of elements, those of operands of concatenations last. */
    List<ElementStore> stores() {
        List<ElementStore> stores = new ArrayList<>();
        for (Operation member : stored(Level.ELEMENT)) {
            stores.add(new ElementStore(
                    member, output(member), Access.ofOutput(member).joined()));
        }
        for (Operation concatenation : group.concatenations()) {
            for (View operand : concatenation.reads()) {
                Access access = Access.ofOperand(concatenation, operand.value());
                stores.add(new ElementStore(group.member(operand.value()), output(concatenation), access));
            }
        }
        return stores;
    }

    /** Appends the declaration and the load of one access to each tensor. */
    void accesses(Map<Load, String> names, String indent) {
        names.forEach((load, name) -> {
            line(indent + loads.declaration(load, name));
            line(indent + load(load, name));
        });
    }

    /** Returns the statement that loads VEC elements of a tensor. */
    String load(Load load, String name) {
        return loads.isVector(load)
                ? vectorLoad(load, name, "load")
                : "EACH(i) " + name + "[i] = loadElement(" + loads.address(load, "(column + i)") + ");";
    }

    /** Returns the statement that loads VEC adjacent elements with this function of {@code Elements}. */
    String vectorLoad(Load load, String name, String function) {
        return name + " = " + loads.held(load) + "::" + function + "(" + loads.address(load, "column") + ");";
    }
}
