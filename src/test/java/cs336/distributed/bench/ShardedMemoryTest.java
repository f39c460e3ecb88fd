package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.bench.Measurements;
import cs336.bench.Project;
import cs336.scaling.memory.ModelMemory;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.Table;

class ShardedMemoryTest {
    @ParameterizedTest
    @CsvSource({"LARGE, 2", "XL, 2", "XL, 4"})
    void memoryFollowsFromBytesPerParameter(ModelSize size, int ranks) {
        var model = new ModelMemory(size.config(ModelEdition.SPRING_2025, 128), 2, DType.FLOAT32, DeviceKind.CUDA);
        double p = size.config().parameterCount();
        for (boolean sharded : new boolean[] {false, true}) {
            var memory = new ShardedMemory(model, ranks, sharded, 25_000_000);
            double[] perParameter = {8, 8, 8 + (sharded ? 8.0 / ranks : 8)};
            for (int i = 0; i < 3; i++) {
                double other = memory.points().get(i).bytes() - perParameter[i] * p;
                assertTrue(
                        other >= 2 * (32 << 20) && other < 0.01 * p * 8,
                        memory.points().get(i) + ": " + other);
            }
        }
    }

    @ParameterizedTest
    @EnumSource
    void memoryAndPeaksAreWithinFivePercentOfTwoGpus(ModelSize size) throws IOException {
        var model = new ModelMemory(size.config(ModelEdition.SPRING_2025, 128), 2, DType.FLOAT32, DeviceKind.CUDA);
        Table all =
                Measurements.read(Project.path("data/measurements/h200-x4/optimizer_state_sharding_accounting.csv"));
        Table stored = all.where(all.stringColumn("size")
                .isEqualTo(size.label())
                .and(all.stringColumn("implementation").isEqualTo("plain"))
                .and(all.intColumn("nodes").isEqualTo(1)));
        int checked = 0;
        for (String mode : List.of("unsharded", "broadcast", "all-gather", "zero-1")) {
            var memory = new ShardedMemory(model, 2, !mode.equals("unsharded"), 100_000_000);
            Map<String, Long> counted = new LinkedHashMap<>();
            List<String> points = List.of("init", "before-step", "after-step");
            for (int i = 0; i < points.size(); i++) {
                counted.put(points.get(i), memory.points().get(i).bytes());
                counted.put(points.get(i) + "-peak", memory.peaks().get(i).bytes());
            }
            for (Row row : stored.where(stored.stringColumn("mode").isEqualTo(mode))) {
                Long count = counted.get(row.getString("metric"));
                if (count == null) {
                    continue;
                }
                double fullest = row.getDouble("max");
                assertEquals(fullest, count, fullest / 20, mode + " " + row.getString("metric"));
                checked++;
            }
        }
        assertEquals(4 * 6, checked);
    }

    @ParameterizedTest
    @CsvSource({"LARGE", "XL"})
    void onlyTheMomentsOfAdamWDependOnSharding(ModelSize size) {
        var model = new ModelMemory(size.config(ModelEdition.SPRING_2025, 128), 2, DType.FLOAT32, DeviceKind.CUDA);
        var whole = new ShardedMemory(model, 2, false, 25_000_000);
        var shards = new ShardedMemory(model, 2, true, 25_000_000);
        for (int i = 0; i < 2; i++) {
            assertEquals(whole.points().get(i), shards.points().get(i));
            assertEquals(whole.peaks().get(i), shards.peaks().get(i));
        }
        long saved = whole.points().get(2).bytes() - shards.points().get(2).bytes();
        assertEquals(4 * size.config().parameterCount(), saved);
        assertTrue(whole.peaks().get(1).bytes() > whole.points().get(1).bytes());
    }
}
