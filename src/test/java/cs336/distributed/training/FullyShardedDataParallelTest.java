package cs336.distributed.training;

import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.Embedding;
import cs336.basics.Linear;
import cs336.basics.Losses;
import cs336.basics.ModelEdition;
import cs336.basics.NnModule;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.MemoryGrowth;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.World;
import cs336.distributed.launch.Launcher;
import cs336.distributed.launch.RankFailure;
import cs336.distributed.launch.RankProgram;
import cs336.distributed.launch.RankThreads;
import cs336.distributed.launch.WaitingLaunches;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Runs {@link FsdpChecks} on several ranks. */
class FullyShardedDataParallelTest extends RanksTest {
    private static final long SEED = System.nanoTime();

    private static final WaitingLaunches WAITING = new WaitingLaunches();

    @BeforeAll
    static void startTogether() {
        WAITING.start("hangs", 2, EndlessFsdp.class, "hangs");
    }

    @TempDir
    static Path folder; // where each run loads the checkpoints of the runs before

    @TestFactory
    Stream<DynamicTest> onThreeProcesses() throws InterruptedException {
        return on(Launcher.of(3));
    }

    @TestFactory
    Stream<DynamicTest> onFourProcesses() throws InterruptedException {
        return on(Launcher.of(4));
    }

    @Override
    Stream<DynamicTest> on(Launcher launcher) throws InterruptedException {
        var task = new FsdpChecks.FsdpTask(SEED, folder.toString());
        return RankChecks.on(launcher.timeout(Duration.ofSeconds(20)), FsdpChecks.class, task, SEED);
    }

    /** Creates a tiny model on the group's device that computes in bf16. */
    static FullyShardedDataParallel tiny(ProcessGroup group) {
        TransformerConfig config = RankChecks.tinyModel(ModelEdition.SPRING_2025, 2);
        return FullyShardedDataParallel.construct(
                () -> new TransformerLM(config, group.device()),
                group,
                FsdpSettings.standard().withComputeDtype(DType.BFLOAT16));
    }

    /** Training steps of a group of one rank. */
    static final class FsdpSteps implements MemoryGrowth.Work {
        private final Batches batches = Batches.random(17, 2, 6, Device.cpu(), 1);
        private final FullyShardedDataParallel fsdp;
        private final AdamW optimizer;

        FsdpSteps() throws IOException {
            Path folder = Files.createTempDirectory("store");
            Path store = folder.resolve("file");
            var group =
                    ProcessGroup.join(World.local(0, 1, 29_500), CollectiveBackend.GLOO, Duration.ofSeconds(20), store);
            fsdp = tiny(group);
            optimizer = new AdamW(fsdp.namedParameters(), AdamWSettings.of(1e-3));
            Files.delete(store); // one rank does not need it after joining, and this process will be killed
            Files.delete(folder);
        }

        @Override
        public void step() {
            try (var scope = MemoryScope.open()) {
                Batches.Batch batch = batches.next();
                Losses.crossEntropy(fsdp.forward(batch.inputs()), batch.targets())
                        .backward();
                fsdp.finishGradientSynchronization();
                fsdp.clipGradients(1);
                optimizer.step();
                optimizer.zeroGrad();
            }
        }
    }

    @Test
    void thousandStepsDoNotLeakMemory() throws Exception {
        MemoryGrowth.assertFlat(FsdpSteps.class, 100, 150);
    }

    /** Trains without end, until rank 1 is disturbed in the third step. */
    public static final class EndlessFsdp implements RankProgram<String, Double> {
        @Override
        public Double run(ProcessGroup group, String disturbance) throws InterruptedException {
            boolean[] reversed = new boolean[1];
            try (var scope = MemoryScope.open();
                    var model = new Reversible(group.device(), disturbance.contains("equal"), reversed);
                    var fsdp = new FullyShardedDataParallel(model, group, FsdpSettings.standard())) {
                for (int step = 0; ; step++) {
                    Tensor y = fsdp.forward(torch.ones(4, 4));
                    if (step == 2 && group.rank() == 1) {
                        switch (disturbance) {
                            case "is gone" -> Runtime.getRuntime().halt(7);
                            case "hangs" -> Thread.sleep(600_000);
                            case "fails" -> throw new IllegalStateException("the disk is full");
                            default -> reversed[0] = true;
                        }
                    }
                    Backward.of(y.sum()).run();
                    fsdp.finishGradientSynchronization();
                }
            }
        }
    }

    /** Token embeddings with sparse gradients, of four tokens with one feature. */
    private static final class SparseEmbedding extends NnModule {
        private final Tensor weight = parameter("weight", torch.ones(4, 1));

        @Override
        protected Tensor compute(Tensor ids) {
            return torch.embedding(weight, ids, -1, false, true);
        }
    }

    /** A module with a name for {@link FsdpSettings#withShardedModules}. */
    private static final class Parent extends NnModule {
        private final NnModule inner = child("inner", new SparseEmbedding());

        @Override
        protected Tensor compute(Tensor ids) {
            return inner.forward(ids);
        }
    }

    @Test
    void aSparseGradientIsRejectedByName() throws InterruptedException {
        FsdpSettings replicated = FsdpSettings.standard();
        for (FsdpSettings settings : List.of(replicated, replicated.withShardedModules("inner"))) {
            RankThreads.run(2, group -> {
                try (var scope = MemoryScope.open();
                        var model = new Parent();
                        var fsdp = new FullyShardedDataParallel(model, group, settings)) {
                    Tensor ids = torch.zeros(new long[] {3}, Device.cpu().options(DType.INT64));
                    Backward.of(fsdp.forward(ids).sum()).run();
                    RankChecks.requireRejected(
                            fsdp::finishGradientSynchronization, "the gradient of parameter inner.weight is sparse;");
                }
                return 0;
            });
        }
    }

    /** Two layers in any order. */
    private static final class Reversible extends NnModule {
        private final NnModule down;
        private final NnModule up;
        private final boolean[] reversed;

        Reversible(Device device, boolean equal, boolean[] reversed) {
            down = child("down", new Linear(4, 4, device, DType.FLOAT32));
            up = child(
                    "up",
                    equal ? new Linear(4, 4, device, DType.FLOAT32) : new Embedding(6, 4, 1, device, DType.FLOAT32));
            this.reversed = reversed;
        }

        @Override
        protected Tensor compute(Tensor x) {
            Tensor ids = up instanceof Linear
                    ? x
                    : torch.zeros(new long[] {4}, Device.cpu().options(DType.INT64));
            return reversed[0]
                    ? up.forward(ids).add(down.forward(x))
                    : down.forward(x).add(up.forward(ids));
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "fails | rank 1 of 2: IllegalStateException: the disk is full",
                "is gone | rank 1 of 2: its process ended with exit code 7",
                "hangs | rank 1 of 2: ",
            })
    void aDisturbedRankEndsAllInTimeAndIsNamed(String what, String message) {
        RankFailure failure = WAITING.failure(what, 2, EndlessFsdp.class, what);
        assertTrue(failure.getMessage().contains(message), failure.getMessage());
    }

    /** A launch whose timeout of 60 s would fail this test. */
    @ParameterizedTest
    @ValueSource(strings = {"reverses its units", "reverses its equal units"})
    void ranksThatDivergeInALaterStepEndBeforeTheTimeout(String what) {
        long start = System.nanoTime();
        RankFailure failure = WAITING.failure(what, 2, EndlessFsdp.class, what);
        double seconds = (System.nanoTime() - start) / 1e9;
        assertTrue(seconds < 60, seconds + " s: " + failure.getMessage());
        for (String named : new String[] {"all-gather (down.weight)", "all-gather (up.weight)", "rank 0", "rank 1"}) {
            assertTrue(failure.getMessage().contains(named), failure.getMessage());
        }
    }
}
