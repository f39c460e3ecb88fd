package cs336.figures;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.bench.Project;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import org.junit.jupiter.api.Test;

class OptimizerShardingFiguresTest {
    @Test
    void storedMeasurementsGiveTheStoredFigures() throws IOException {
        MeasurementQuery numbers = MeasurementQuery.of(Project.path("data/measurements/h200"))
                .define(
                        "shard",
                        "optimizer_state_sharding_accounting@h200-x2[backend=nccl, processes=2, nodes=1, context=512, round=1]")
                .define(
                        "shardGloo",
                        "optimizer_state_sharding_accounting@any[backend=gloo, processes=2, implementation=plain, round=1]");
        for (Figure figure : List.of(
                OptimizerShardingFigures.memory(numbers, "xl"),
                OptimizerShardingFigures.times(numbers, "xl"),
                OptimizerShardingFigures.traffic(numbers, "xl"))) {
            assertEquals(
                    Files.readString(Project.path("figures/" + figure.name() + ".svg")), figure.svg(), figure.name());
        }
    }
}
