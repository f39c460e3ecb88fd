package cs336.distributed.training;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.launch.Launcher;
import cs336.torch.Device;
import cs336.torch.DeviceKind;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestFactory;

/** Runs {@link FsdpChecks} on several ranks. */
class FullyShardedDataParallelTest {
    @TestFactory
    Stream<DynamicTest> onTwoProcesses() throws InterruptedException {
        return on(Launcher.of(2));
    }

    @TestFactory
    Stream<DynamicTest> onThreeProcesses() throws InterruptedException {
        return on(Launcher.of(3));
    }

    @TestFactory
    Stream<DynamicTest> onFourProcesses() throws InterruptedException {
        return on(Launcher.of(4));
    }

    @Tag("gpu")
    @TestFactory
    Stream<DynamicTest> onTwoProcessesThatShareAGpu() throws InterruptedException {
        return on(Launcher.of(2).device(DeviceKind.CUDA));
    }

    /** Uses one rank if there is only one GPU, which at least covers order and streams. */
    @Tag("gpu")
    @TestFactory
    Stream<DynamicTest> withOneGpuPerRank() throws InterruptedException {
        return on(Launcher.of(Math.min(2, Device.cudaCount())).backend(CollectiveBackend.NCCL));
    }

    private static Stream<DynamicTest> on(Launcher launcher) throws InterruptedException {
        long seed = System.nanoTime();
        List<LinkedHashMap<String, String>> ranks = launcher.threads(1).timeout(Duration.ofSeconds(20)).run(FsdpChecks.class, seed);
        return new ArrayList<>(ranks.get(0).keySet())
                .stream()
                        .map(name -> dynamicTest(name, () -> {
                            String wrong = String.join(
                                    "",
                                    ranks.stream().map(rank -> rank.get(name)).toList());
                            assertEquals("", wrong, "seed " + seed);
                        }));
    }
}
