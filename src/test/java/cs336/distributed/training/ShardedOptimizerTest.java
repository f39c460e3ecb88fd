package cs336.distributed.training;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.AdamW;
import cs336.distributed.bench.ToyModel;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.launch.Launcher;
import cs336.distributed.launch.RankFailure;
import cs336.distributed.launch.RankProgram;
import cs336.distributed.launch.WaitingLaunches;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@Timeout(300)
class ShardedOptimizerTest {
    @TempDir
    static Path folder;

    private static final WaitingLaunches WAITING = new WaitingLaunches();

    private static ShardingChecks.ShardingTask task;
    private static Map<Integer, List<TreeMap<String, String>>> results;

    @BeforeAll
    static void runOnFourAndOnTwoRanks() throws InterruptedException {
        for (String what : new String[] {"hangs", "asks for the whole state"}) {
            WAITING.start(what, 2, EndlessTraining.class, new Disturbance(what, "all-gather"));
        }
        task = new ShardingChecks.ShardingTask(System.nanoTime() % 100_000, folder.toString());
        results = new TreeMap<>();
        for (int ranks : new int[] {4, 2}) {
            results.put(
                    ranks, Launcher.of(ranks).timeout(Duration.ofSeconds(30)).run(ShardingChecks.class, task));
        }
    }

    @TestFactory
    Stream<DynamicTest> passesOnEveryRank() {
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
    void anOptimizerWithoutShardsLoadsTheCheckpointOfAllRanks() throws IOException {
        for (int ranks : new int[] {2, 4}) {
            for (int sharding = 0; sharding < 3; sharding++) {
                ShardingChecks.resumeAlone(task, ShardingChecks.checkpoint(task, ranks, sharding));
            }
        }
    }

    /**
     * A disturbance of rank 1.
     *
     * @param sharding {@code broadcast} or {@code all-gather}
     */
    public record Disturbance(String what, String sharding) implements Serializable {
        private static final long serialVersionUID = 1;
    }

    /**
     * Trains without end, with parameters awaited in the next forward pass, until rank 1 is disturbed in the third
     * step.
     */
    public static final class EndlessTraining implements RankProgram<Disturbance, Double> {
        @Override
        public Double run(ProcessGroup group, Disturbance disturbance) throws InterruptedException {
            Sharding sharding =
                    disturbance.sharding.equals("broadcast") ? Sharding.broadcast() : Sharding.allGather(0.0005);
            try (var scope = MemoryScope.open();
                    var model = new ToyModel(false, group.device(), DType.FLOAT32);
                    var optimizer = new ShardedOptimizer<>(
                            model.namedParameters(), AdamW::new, ShardingChecks.COURSE, group, sharding)) {
                optimizer.overlapWith(model);
                for (int step = 0; ; step++) {
                    model.forward(torch.ones(
                                    new long[] {1, ToyModel.IN}, group.device().options(DType.FLOAT32)))
                            .sum()
                            .backward();
                    if (step == 2 && group.rank() == 1) {
                        disturb(group, disturbance.what, optimizer);
                    }
                    optimizer.step();
                }
            }
        }

        private static void disturb(ProcessGroup group, String what, ShardedOptimizer<?> optimizer)
                throws InterruptedException {
            switch (what) {
                case "fails" -> throw new IllegalStateException("the disk is full");
                case "is gone" -> Runtime.getRuntime().halt(7);
                case "hangs" -> Thread.sleep(600_000);
                case "asks for the whole state" -> optimizer.wholeState();
                default -> throw new AssertionError(what);
            }
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "fails | all-gather | rank 1 of 2: IllegalStateException: the disk is full",
                "is gone | broadcast | rank 1 of 2: its process ended with exit code 7",
                "hangs | all-gather | rank 1 of 2: ",
                "asks for the whole state | all-gather | all-gather",
            })
    void aDisturbedRankEndsAllInTimeAndIsNamed(String what, String sharding, String message) {
        RankFailure failure = WAITING.failure(what, 2, EndlessTraining.class, new Disturbance(what, sharding));
        assertTrue(failure.getMessage().contains(message), failure.getMessage());
    }
}
