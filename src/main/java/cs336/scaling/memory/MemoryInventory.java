package cs336.scaling.memory;

import static cs336.units.UnitFactors.MIB;

import cs336.numbers.Header;
import cs336.numbers.Tables;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/**
 * All tensors that are alive at one point in a training step.
 *
 * @param name the point in the step
 * @param tensors the tensors, by kind
 */
public record MemoryInventory(String name, List<TensorMemory> tensors) {
    public MemoryInventory {
        Objects.requireNonNull(tensors, "tensors must not be null");
        tensors = List.copyOf(tensors);
    }

    /** Returns the inventory of several groups of tensors. */
    @SafeVarargs
    @SuppressWarnings("varargs") // the array is only read
    static MemoryInventory of(String name, List<TensorMemory>... groups) {
        return new MemoryInventory(
                name, Stream.of(groups).flatMap(Collection::stream).toList());
    }

    /** Returns the size of all tensors in bytes. */
    public long bytes() {
        return bytes(tensors);
    }

    /** Returns the size of some tensors in bytes. */
    public static long bytes(Collection<TensorMemory> tensors) {
        return tensors.stream().mapToLong(TensorMemory::bytes).reduce(0, Math::addExact);
    }

    /** Returns the bytes that PyTorch's allocator for CUDA counts, see {@link TensorMemory#allocatedBytes}. */
    public long allocatedBytes() {
        return tensors.stream().mapToLong(TensorMemory::allocatedBytes).reduce(0, Math::addExact);
    }

    private record InventoryRow(
            String tensor,
            String shape,
            String dtype,
            long count,
            @Header("memory (MiB)") double mib) {}

    /** Returns a table with a row for each kind of tensor and a last row with the sum. */
    public Table table() {
        List<InventoryRow> rows = new ArrayList<>();
        for (TensorMemory t : tensors) {
            rows.add(new InventoryRow(t.name(), t.shape(), t.dtype().toString(), t.count(), t.bytes() / MIB));
        }
        long count = tensors.stream().mapToLong(TensorMemory::count).sum();
        rows.add(new InventoryRow("sum", "", "", count, bytes() / MIB));
        return Tables.of(InventoryRow.class, rows).setName(name);
    }

    /**
     * Returns a table with a row for each kind of tensor, a column in MiB for each point in the step, and a last row
     * with the sums. A cell is missing where the tensor is not alive.
     *
     * @param points inventories by point in the step, the name of their column
     */
    static Table table(String name, Map<String, MemoryInventory> points) {
        Map<String, TensorMemory> all = new LinkedHashMap<>();
        points.values().forEach(point -> point.tensors.forEach(tensor -> all.putIfAbsent(tensor.name(), tensor)));
        StringColumn names = StringColumn.create("tensor");
        StringColumn shapes = StringColumn.create("shape");
        all.values().forEach(tensor -> names.append(tensor.name()));
        all.values().forEach(tensor -> shapes.append(tensor.shape()));
        Table table = Table.create(name, names.append("sum"), shapes.append(""));
        points.forEach((column, point) -> {
            DoubleColumn mib = DoubleColumn.create(column + " (MiB)");
            for (TensorMemory tensor : all.values()) {
                if (point.tensors.contains(tensor)) {
                    mib.append(tensor.bytes() / MIB);
                } else {
                    mib.appendMissing();
                }
            }
            table.addColumns(mib.append(point.bytes() / MIB));
        });
        return table;
    }
}
