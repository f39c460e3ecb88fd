package cs336.distributed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.AdamW;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(120)
class ShardedOptimizerTest {
    @TempDir
    static Path folder;

    private static ShardingChecks.Task task;
    private static Map<Integer, List<TreeMap<String, String>>> results;

    @BeforeAll
    static void runOnFourAndOnTwoRanks() throws InterruptedException {
        task = new ShardingChecks.Task(System.nanoTime() % 100_000, folder.toString());
        results = new TreeMap<>();
        for (int ranks : new int[] {4, 2}) {
            results.put(
                    ranks, Launcher.of(ranks).timeout(Duration.ofSeconds(30)).run(ShardingChecks.class, task));
        }
    }

    @TestFactory
    Stream<DynamicTest> holdsOnEveryRank() {
        return results.entrySet().stream()
                .flatMap(run -> ShardingChecks.names().stream()
                        .map(name -> DynamicTest.dynamicTest(name + ", " + run.getKey() + " ranks", () -> {
                            for (int rank = 0; rank < run.getKey(); rank++) {
                                assertEquals(
                                        "",
                                        run.getValue().get(rank).get(name),
                                        "rank " + rank + ", seed " + task.seed());
                            }
                        })));
    }

    @Test
    void anOptimizerWithoutShardsTakesOverWhatAllRanksSaved() throws IOException {
        for (int ranks : new int[] {2, 4}) {
            for (int sharding = 0; sharding < 3; sharding++) {
                ShardingChecks.resumeAlone(task, ShardingChecks.checkpoint(task, ranks, sharding));
            }
        }
    }

    /** Fails on rank 1 between two steps. */
    public static final class FailingRank implements RankProgram<Long, Double> {
        @Override
        public Double run(ProcessGroup group, Long seed) {
            try (var scope = MemoryScope.open();
                    var model = new ToyModel(false, group.device(), DType.FLOAT32);
                    var optimizer = new ShardedOptimizer<>(
                            model.namedParameters(),
                            AdamW::new,
                            ShardingChecks.COURSE,
                            group,
                            Sharding.allGather(0.0005))) {
                optimizer.step();
                if (group.rank() == 1) throw new IllegalStateException("the disk is full");
                optimizer.step();
                return 0.0;
            }
        }
    }

    @Test
    void aRankThatFailsEndsAllInTime() {
        long start = System.nanoTime();
        var failure = assertThrows(
                RankFailure.class,
                () -> Launcher.of(2).timeout(Duration.ofSeconds(5)).run(FailingRank.class, 0L));
        assertEquals(1, failure.rank());
        assertTrue(failure.getMessage().contains("the disk is full"), failure.getMessage());
        assertTrue(System.nanoTime() - start < 40e9);
    }
}
