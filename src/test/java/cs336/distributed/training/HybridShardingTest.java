package cs336.distributed.training;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.Linear;
import cs336.basics.NnModule;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.launch.Launcher;
import cs336.distributed.launch.RankFailure;
import cs336.distributed.launch.RankProgram;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.DeviceKind;
import cs336.torch.MemoryScope;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.file.Path;
import java.time.Duration;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** Runs {@link HsdpChecks} on four ranks. */
class HybridShardingTest {
    private static final long SEED = System.nanoTime();

    @TempDir
    Path folder;

    @TestFactory
    Stream<DynamicTest> onFourProcesses() throws InterruptedException {
        return on(Launcher.of(4));
    }

    @Tag("gpu")
    @TestFactory
    Stream<DynamicTest> onFourProcessesThatShareAGpu() throws InterruptedException {
        return on(Launcher.of(4).device(DeviceKind.CUDA));
    }

    /** Uses two ranks, of which each holds all shards, if there are fewer than four GPUs. */
    @Tag("gpu")
    @TestFactory
    Stream<DynamicTest> withOneGpuPerRank() throws InterruptedException {
        int gpus = Device.cudaCount();
        return gpus < 2 ? Stream.empty() : on(Launcher.of(gpus < 4 ? 2 : 4).backend(CollectiveBackend.NCCL));
    }

    private Stream<DynamicTest> on(Launcher launcher) throws InterruptedException {
        var task = new FsdpChecks.FsdpTask(SEED, folder.toString());
        return RankChecks.on(launcher.timeout(Duration.ofSeconds(20)), HsdpChecks.class, task, SEED);
    }

    /** Trains without end, until rank 3 fails in the third step. */
    public static final class EndlessHsdp implements RankProgram<String, Double> {
        @Override
        public Double run(ProcessGroup group, String reason) {
            try (var scope = MemoryScope.open();
                    var model = new TwoLayers(group.device());
                    var fsdp = new FullyShardedDataParallel(
                            model, group, FsdpSettings.standard().withReplicas(2))) {
                for (int step = 0; ; step++) {
                    Tensor y = fsdp.forward(torch.ones(4, 4));
                    if (step == 2 && group.rank() == 3) {
                        throw new IllegalStateException(reason);
                    }
                    Backward.of(y.sum()).run();
                    fsdp.finishGradientSynchronization();
                }
            }
        }
    }

    private static final class TwoLayers extends NnModule {
        private final NnModule first;
        private final NnModule second;

        TwoLayers(Device device) {
            first = child("first", new Linear(4, 4, device, DType.FLOAT32));
            second = child("second", new Linear(4, 4, device, DType.FLOAT32));
        }

        @Override
        protected Tensor compute(Tensor x) {
            return second.forward(first.forward(x));
        }
    }

    @Test
    void aRankThatFailsEndsAllInTimeAndIsNamed() {
        long start = System.nanoTime();
        var failure = assertThrows(
                RankFailure.class,
                () -> Launcher.of(4)
                        .timeout(Duration.ofSeconds(60))
                        .output(new PrintStream(OutputStream.nullOutputStream()))
                        .run(EndlessHsdp.class, "the disk is full"));
        double seconds = (System.nanoTime() - start) / 1e9;
        String expected = "rank 3 of 4: IllegalStateException: the disk is full";
        assertTrue(failure.getMessage().startsWith(expected), failure.getMessage());
        assertTrue(seconds < 300, "took " + seconds + " s");
    }
}
