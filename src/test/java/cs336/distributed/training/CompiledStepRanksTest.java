package cs336.distributed.training;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.ModelEdition;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Precision;
import cs336.compile.CompiledStep;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.launch.Launcher;
import cs336.distributed.launch.RankFailure;
import cs336.distributed.launch.RankProgram;
import cs336.distributed.launch.WaitingLaunches;
import cs336.torch.MemoryScope;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Runs {@link CompiledStepChecks} on several ranks. On a shared GPU the first stage of each step records graphs, and
 * the all-reduces of Gloo run between them.
 */
class CompiledStepRanksTest extends RanksTest {
    private static final WaitingLaunches WAITING = new WaitingLaunches();

    @BeforeAll
    static void startTogether() {
        WAITING.start("hangs", 2, EndlessTraining.class, "hangs");
    }

    @TestFactory
    Stream<DynamicTest> onThreeProcesses() throws InterruptedException {
        return on(Launcher.of(3));
    }

    @Tag("gpu")
    @TestFactory
    Stream<DynamicTest> onOneGpu() throws InterruptedException {
        return on(Launcher.of(1).backend(CollectiveBackend.NCCL));
    }

    /** Trains without end; rank 1 is disturbed after the fourth step. */
    public static final class EndlessTraining implements RankProgram<String, Integer> {
        @Override
        public Integer run(ProcessGroup group, String how) throws Exception {
            TransformerConfig config = RankChecks.tinyModel(ModelEdition.SPRING_2025, 1);
            try (var model = new TransformerLM(config, group.device());
                    var ddp = new DistributedDataParallel(model, group, Strategy.bucketed(0.001));
                    var optimizer = new AdamW(model.namedParameters(), AdamWSettings.of(0.01));
                    var step = CompiledStep.of(ddp, optimizer, Precision.FP32).fuse()) {
                Batches batches = Batches.random(17, 2, 6, group.device(), group.rank());
                for (int i = 0; ; i++) {
                    try (var scope = MemoryScope.open()) {
                        var batch = batches.next();
                        boolean isDisturbed = i == 4 && group.rank() == 1;
                        if (isDisturbed && how.equals("ends")) {
                            Runtime.getRuntime().halt(7);
                        } else if (isDisturbed && how.equals("hangs")) {
                            Thread.sleep(600_000);
                        }
                        step.run(batch.inputs(), isDisturbed ? batch.targets().narrow(1, 0, 3) : batch.targets());
                    }
                }
            }
        }
    }

    @Timeout(300)
    @ParameterizedTest
    @CsvSource({
        "ends, rank 1 of 2: its process ended with exit code 7",
        "hangs, rank 1 of 2: it is at EndlessTraining.run",
        "'gets a wrong batch', 'rank 1 of 2: targets must have the shape of inputs'"
    })
    void aFailedRankIsNamed(String how, String message) {
        RankFailure failure = WAITING.failure(how, 2, EndlessTraining.class, how);
        assertEquals(1, failure.rank());
        assertTrue(failure.getMessage().startsWith(message), failure.getMessage());
        failure.report().toFile().delete();
    }

    @Override
    Stream<DynamicTest> on(Launcher launcher) throws InterruptedException {
        long seed = System.nanoTime();
        return RankChecks.on(launcher, CompiledStepChecks.class, seed, seed);
    }
}
