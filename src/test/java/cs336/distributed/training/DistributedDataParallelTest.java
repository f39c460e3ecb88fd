package cs336.distributed.training;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.launch.Launcher;
import cs336.torch.Device;
import cs336.torch.DeviceKind;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestFactory;

/** What is checked is in {@link DdpChecks}. */
class DistributedDataParallelTest {
    @TestFactory
    Stream<DynamicTest> onTwoProcesses() throws InterruptedException {
        return on(Launcher.of(2));
    }

    @TestFactory
    Stream<DynamicTest> onFourProcesses() throws InterruptedException {
        return on(Launcher.of(4));
    }

    @Tag("gpu")
    @TestFactory
    Stream<DynamicTest> onTwoProcessesThatShareACard() throws InterruptedException {
        return on(Launcher.of(2).device(DeviceKind.CUDA));
    }

    /** One rank where there is one card: then at least order and streams are looked at. */
    @Tag("gpu")
    @TestFactory
    Stream<DynamicTest> onCardsOfTheirOwn() throws InterruptedException {
        return on(Launcher.of(Math.min(2, Device.cudaCount())).backend(CollectiveBackend.NCCL));
    }

    private static Stream<DynamicTest> on(Launcher launcher) throws InterruptedException {
        long seed = System.nanoTime();
        List<LinkedHashMap<String, String>> ranks = launcher.threads(1).run(DdpChecks.class, seed);
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
