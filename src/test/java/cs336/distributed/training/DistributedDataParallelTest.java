package cs336.distributed.training;

import cs336.distributed.launch.Launcher;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Runs {@link DdpChecks} on several ranks. */
class DistributedDataParallelTest extends RanksTest {
    @TestFactory
    Stream<DynamicTest> onFourProcesses() throws InterruptedException {
        return on(Launcher.of(4));
    }

    @Override
    Stream<DynamicTest> on(Launcher launcher) throws InterruptedException {
        long seed = System.nanoTime();
        return RankChecks.on(launcher, DdpChecks.class, seed, seed);
    }
}
