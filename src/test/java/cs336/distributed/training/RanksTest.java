package cs336.distributed.training;

import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.launch.Launcher;
import cs336.torch.Device;
import cs336.torch.DeviceKind;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestFactory;

/** Checks that run on two processes, on two that share a GPU, and with one GPU per rank. */
abstract class RanksTest {
    /** Runs all checks with a launcher. */
    abstract Stream<DynamicTest> on(Launcher launcher) throws InterruptedException;

    @TestFactory
    final Stream<DynamicTest> onTwoProcesses() throws InterruptedException {
        return on(Launcher.of(2));
    }

    @Tag("gpu")
    @TestFactory
    final Stream<DynamicTest> onTwoProcessesThatShareAGpu() throws InterruptedException {
        return on(Launcher.of(2).device(DeviceKind.CUDA));
    }

    /** Uses one rank if there is only one GPU, which at least covers order and streams. */
    @Tag("gpu")
    @TestFactory
    final Stream<DynamicTest> withOneGpuPerRank() throws InterruptedException {
        return on(Launcher.of(Math.min(2, Device.cudaCount())).backend(CollectiveBackend.NCCL));
    }
}
