package cs336.compile.fuse;

import cs336.compile.fuse.Access.Digit;
import cs336.compile.fuse.ReductionOperator.ReductionKind;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;

/**
 * Pointwise operations and reductions that one kernel computes. Their iterations form a matrix of rows and columns.
 * Most operations compute one number per element of the matrix; reductions over the columns and operations on their
 * results compute one number per row. Sums over the rows compute one number per column, which the kernel accumulates in
 * two steps, so that no other member can read it.
 *
 * <p>Groups with sums over the rows become one of two kinds of kernels. If the first member is such a sum, all results
 * are such sums. Otherwise each thread block computes several rows.
 */
final class FusionGroup {
    /** The part of the matrix for which a member computes one number. */
    enum Level {
        ELEMENT,
        ROW,
        COLUMN
    }

    private static final int MAX_COLUMNS = 32 * 1024; // a block keeps a row in registers
    private static final int MAX_ROW_BYTES = 128 * 1024; // of all loaded tensors: 32 registers in each of 1,024 threads
    private static final int MAX_LOADS = 24;
    private static final int MAX_COLUMNS_PER_ROW = 16; // up to it, there are enough rows for all multiprocessors
    private static final int MAX_MEMBERS = 100; // the time to compile a kernel grows faster than its size

    private final long elements;
    private long columns; // 0 until a reduction fixes it
    private boolean perColumn;
    private final List<Operation> members = new ArrayList<>();
    private final List<Operation> concatenations = new ArrayList<>();
    private final Map<ProgramValue, Level> levels = new HashMap<>();
    private final TreeSet<Long> places = new TreeSet<>(); // where the iterations are divided into dimensions
    private Set<View> loads; // null until the first use after a change

    private FusionGroup(long elements) {
        this.elements = elements;
    }

    /** Returns a group of one operation, or null if a kernel cannot compute it. */
    static FusionGroup of(Operation operation) {
        var group = new FusionGroup(iterations(operation));
        if (operation.operator() instanceof ReductionOperator reduction
                && !reduction.isPerRow(operation.view(0).layout())) {
            group.columns = operation.output().layout().elements();
            group.perColumn = true;
        }
        return group.elements > 0 && group.add(operation) ? group : null;
    }

    private static long iterations(Operation operation) {
        return operation.operator() instanceof ReductionOperator
                ? operation.view(0).layout().elements()
                : operation.output().layout().elements();
    }

    /** Returns the number of iterations. */
    long elements() {
        return elements;
    }

    /** Returns the number of columns; without a reduction, all elements are one row. */
    long columns() {
        return columns == 0 ? elements : columns;
    }

    long rows() {
        return elements / columns();
    }

    /** Returns whether all results are sums over the rows, with one result per column. */
    boolean isPerColumn() {
        return perColumn;
    }

    boolean hasReduction() {
        return members.stream().anyMatch(member -> member.operator() instanceof ReductionOperator);
    }

    /** Returns whether a result is a sum over the rows. */
    boolean hasColumnSums() {
        return members.stream().anyMatch(member -> level(member) == Level.COLUMN);
    }

    List<Operation> members() {
        return members;
    }

    /** Returns the concatenations of members that the kernel stores. */
    List<Operation> concatenations() {
        return concatenations;
    }

    /** Returns the members, then the concatenations. */
    List<Operation> operations() {
        return Stream.concat(members.stream(), concatenations.stream()).toList();
    }

    /** Returns the level of a value of this group; null for a value from outside. */
    Level level(ProgramValue value) {
        return levels.get(value);
    }

    /** Returns the level of a member. */
    Level level(Operation member) {
        return level(member.output());
    }

    /** Returns the views from outside that the members read. */
    Set<View> loads() {
        if (loads == null) {
            loads = new LinkedHashSet<>();
            members.forEach(this::addLoads);
        }
        return loads;
    }

    private void addLoads(Operation member) {
        for (View view : member.reads()) {
            if (!levels.containsKey(view.value())) {
                loads.add(view);
            }
        }
    }

    /** Returns the member that computes a value, which must be one of this group. */
    Operation member(ProgramValue value) {
        return members.get(indexOf(value));
    }

    /** Returns the index of the member that computes a value, or −1. */
    int indexOf(ProgramValue value) {
        for (int i = 0; i < members.size(); i++) {
            if (members.get(i).output() == value) {
                return i;
            }
        }
        return -1;
    }

    /** Lets members from number {@code first} on read a member's result instead of a loaded value. */
    void replaceLoad(ProgramValue loaded, ProgramValue result, int first) {
        members.subList(first, members.size())
                .replaceAll(member ->
                        member.withViews(view -> view.value() == loaded ? new View(result, view.layout()) : view));
        loads = null;
    }

    /** Returns whether the members that load a value could instead read the result of a member like this operation. */
    boolean canUse(Operation operation, ProgramValue value) {
        Level from = levelOf(operation);
        return from != null
                && members.stream()
                        .allMatch(member -> member.reads().stream()
                                .filter(view -> view.value() == value)
                                .allMatch(view -> isReadable(member, view, level(member), from, columns)));
    }

    /** Removes members that none of these values depends on. */
    void removeUnused(List<ProgramValue> values) {
        List<View> results = values.stream().map(View::new).toList();
        Set<Operation> used = new HashSet<>(
                Simplification.withoutDeadOperations(new Program(List.of(), Map.of(), members, results, 0))
                        .operations());
        if (members.retainAll(used)) {
            loads = null;
        }
    }

    /** Lets the kernel store a concatenation if its operands are members that the kernel can store in their places. */
    boolean addConcatenation(Operation concatenation) {
        return concatenation.reads().stream()
                        .allMatch(view -> levels.get(view.value()) == Level.ELEMENT
                                && Access.ofOperand(concatenation, view.value()).splitAt(columns()) != null)
                && concatenations.add(concatenation);
    }

    /** Returns the values from outside that the members read. */
    List<ProgramValue> inputs() {
        return loads().stream().map(View::value).distinct().toList();
    }

    /** Adds an operation if the kernel can compute it with the others. */
    boolean add(Operation operation) {
        return add(operation, members.size());
    }

    /** Adds an operation before member number {@code position} if the kernel can compute it with the others. */
    boolean add(Operation operation, int position) {
        if (members.size() == MAX_MEMBERS) {
            return false;
        }
        Level level = levelOf(operation);
        long newColumns = columns;
        if (columns == 0 && level != null && level != Level.ELEMENT) { // the first reduction
            long results = operation.output().layout().elements();
            newColumns = level == Level.ROW ? elements / results : results;
        }
        boolean isPaired = operation.operator() == PointwiseOperator.COMPLEX_MUL; // in one thread
        if (level == null || newColumns > MAX_COLUMNS && !perColumn || newColumns % 2 != 0 && isPaired) {
            return false;
        }
        for (View view : operation.reads()) {
            Level from = levels.get(view.value());
            if (from != null && !isReadable(operation, view, level, from, newColumns)) {
                return false;
            }
        }
        TreeSet<Long> all = placesWith(operation, level, newColumns);
        if (all == null || !Access.ofOutput(operation).isIdentity() || loads().size() >= MAX_LOADS) {
            return false;
        }
        if (!perColumn && newColumns > 0 && rowBytes(operation, level, newColumns) > MAX_ROW_BYTES) {
            return false;
        }
        columns = newColumns;
        places.addAll(all);
        levels.put(operation.output(), level);
        if (loads != null && position == members.size()) {
            addLoads(operation);
        } else {
            loads = null;
        }
        members.add(position, operation);
        return true;
    }

    /** Returns the bytes of a row of all loaded tensors and sums, with one more member. */
    private long rowBytes(Operation added, Level addedLevel, long columnsThen) {
        Set<View> loaded = new HashSet<>();
        long bytes = 0;
        List<Operation> all = new ArrayList<>(members);
        all.add(added);
        for (Operation member : all) {
            Level level = levels.getOrDefault(member.output(), addedLevel);
            for (View view : member.reads()) {
                if (levels.containsKey(view.value()) || isPointwisePerRow(member, level)) {
                    continue;
                }
                Access access = Access.of(member, view);
                if (!access.isScalar() && !access.isOncePerRow(columnsThen) && loaded.add(view)) {
                    bytes += columnsThen * view.dtype().bytes();
                }
            }
            if (level == Level.COLUMN) {
                bytes += columnsThen * PointwiseOperator.computeType(member).bytes();
            }
        }
        return bytes;
    }

    /** Returns whether a member reads and computes one number per row. */
    boolean isPointwisePerRow(Operation member) {
        return isPointwisePerRow(member, level(member));
    }

    private static boolean isPointwisePerRow(Operation member, Level level) {
        return level == Level.ROW && !(member.operator() instanceof ReductionOperator);
    }

    /** Returns the level that an operation would have in this group, or null if the kernel cannot compute it. */
    private Level levelOf(Operation operation) {
        long results = operation.output().layout().elements();
        boolean isOnePerRow = !perColumn && results * columns == elements;
        if (!(operation.operator() instanceof ReductionOperator reduction)) {
            return results == elements ? Level.ELEMENT : isOnePerRow ? Level.ROW : null;
        }
        if (iterations(operation) != elements) {
            return null;
        }
        if (reduction.isPerRow(operation.view(0).layout())) {
            return columns == 0 || isOnePerRow ? Level.ROW : null;
        }
        boolean isOnePerColumn = (columns == 0 || results == columns) && reduction.kind() == ReductionKind.SUM;
        boolean hasEnoughRows = perColumn || results * results <= MAX_COLUMNS_PER_ROW * elements;
        return isOnePerColumn && hasEnoughRows ? Level.COLUMN : null;
    }

    /** Returns whether the kernel has the number that a member reads from another one in the same iteration. */
    private static boolean isReadable(Operation operation, View view, Level level, Level from, long columns) {
        boolean isReduction = operation.operator() instanceof ReductionOperator;
        Access access = Access.of(operation, view);
        return switch (from) {
            case ELEMENT -> (level == Level.ELEMENT || isReduction) && access.isIdentity();
            case ROW -> level == Level.ROW ? !isReduction && access.isIdentity() : access.isOncePerRow(columns);
            case COLUMN -> false;
        };
    }

    /** Returns the places where the iterations are divided with one more member, or null if that is not possible. */
    private TreeSet<Long> placesWith(Operation operation, Level level, long newColumns) {
        var all = new TreeSet<>(places);
        if (newColumns != 0) {
            all.add(newColumns);
        }
        long factor = isPointwisePerRow(operation, level) ? newColumns : 1;
        for (View view : operation.reads()) {
            for (Digit digit : Access.of(operation, view).digits()) {
                all.add(digit.place() * factor);
            }
        }
        long smaller = 1;
        for (long place : all) {
            if (place % smaller != 0 || elements % place != 0) {
                return null;
            }
            smaller = place;
        }
        return all;
    }
}
