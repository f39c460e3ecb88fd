package cs336.planner;

import cs336.bench.Pass;
import cs336.distributed.bench.FsdpMode;
import cs336.distributed.bench.ShardedMemory;
import cs336.numbers.Header;
import cs336.numbers.Tables;
import cs336.scaling.ShardedParameterMemory;
import cs336.scaling.memory.MemoryInventory;
import cs336.scaling.memory.TensorMemory;
import cs336.scaling.memory.TensorMemory.TensorPurpose;
import cs336.units.Bytes;
import cs336.units.UnitFactors;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import tech.tablesaw.api.Table;

/**
 * The predicted peak memory of one GPU in a {@link StepPlan}, from the second step on, when the optimizer state exists.
 * It predicts {@code torch.cuda.max_memory_allocated}. Tensors come from {@link cs336.scaling.memory.ModelMemory} and
 * {@link ShardedMemory}; {@link TensorMemory#allocatedBytes} adds the allocator's rounding.
 *
 * @param plan the planned step
 * @param peak the tensors that are alive at the peak
 */
public record PlanMemory(StepPlan plan, MemoryInventory peak) {
    /** Returns the prediction for a plan. */
    public static PlanMemory of(StepPlan plan) {
        return new PlanMemory(plan, peakOf(plan));
    }

    private static MemoryInventory peakOf(StepPlan plan) {
        boolean sends = plan.gpus() > 1 && plan.pass().valuesPerParameter() > 1;
        if (plan.isSharded()) {
            int units = plan.mode() == FsdpMode.FSDP ? 2 : 1;
            return largest(new ShardedParameterMemory(plan.memory(), plan.gpus(), units).candidates(plan.pass()));
        }
        if (!sends) {
            return largest(plan.memory().candidates(plan.pass()));
        }
        boolean sharded = plan.mode() == FsdpMode.ZERO_1;
        var buckets = new ShardedMemory(plan.memory(), plan.gpus(), sharded, (long) (plan.bucketMb() * UnitFactors.MB));
        return plan.pass() == Pass.STEP ? buckets.peakOfStep() : buckets.peaks().get(1);
    }

    private static MemoryInventory largest(List<MemoryInventory> candidates) {
        return candidates.stream()
                .max(Comparator.comparingLong(MemoryInventory::allocatedBytes))
                .orElseThrow();
    }

    /** Returns the predicted peak. */
    public Bytes total() {
        return new Bytes(peak.allocatedBytes());
    }

    /** Returns the predicted peak by category; a category without tensors is 0. */
    public Map<TensorPurpose, Bytes> categories() {
        var sums = new EnumMap<TensorPurpose, Bytes>(TensorPurpose.class);
        for (TensorPurpose purpose : TensorPurpose.values()) {
            long bytes = peak.tensors().stream()
                    .filter(tensor -> tensor.purpose() == purpose)
                    .mapToLong(TensorMemory::allocatedBytes)
                    .sum();
            sums.put(purpose, new Bytes(bytes));
        }
        return sums;
    }

    /** Returns whether the peak fits into the memory of a machine's GPU. */
    public boolean fits(PlanMachine machine) {
        return total().compareTo(machine.usable()) <= 0;
    }

    private record CategoryRow(
            String category, @Header("memory (GiB)") double gib) {}

    /** Returns a table with a row for each category that is not empty and a last row with the sum. */
    public Table table() {
        List<CategoryRow> rows = new ArrayList<>();
        categories().forEach((purpose, bytes) -> {
            if (!bytes.equals(Bytes.NONE)) {
                rows.add(new CategoryRow(purpose.toString(), bytes.gib()));
            }
        });
        rows.add(new CategoryRow("peak", total().gib()));
        return Tables.of(CategoryRow.class, rows).setName("peak memory, at: " + peak.name());
    }
}
