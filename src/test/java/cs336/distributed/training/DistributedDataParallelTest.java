package cs336.distributed.training;

import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.launch.Launcher;
import cs336.torch.Device;
import cs336.torch.DeviceKind;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestFactory;

/** Runs {@link DdpChecks} on several ranks. */
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
        return RankChecks.on(launcher, DdpChecks.class, seed, seed);
    }
}
