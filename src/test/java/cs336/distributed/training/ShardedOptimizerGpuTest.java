package cs336.distributed.training;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.launch.Launcher;
import cs336.torch.Device;
import java.nio.file.Path;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Runs {@link ShardingChecks} on NCCL, with one rank per GPU on up to two GPUs. */
@Tag("gpu")
class ShardedOptimizerGpuTest {
    @TempDir
    Path folder;

    @Test
    void passesOnEveryRank() throws InterruptedException {
        assumeTrue(Device.cudaCount() > 0, "needs a GPU");
        var task = new ShardingChecks.ShardingTask(System.nanoTime() % 100_000, folder.toString());
        int ranks = Math.min(2, Device.cudaCount());
        for (var results : Launcher.of(ranks).backend(CollectiveBackend.NCCL).run(ShardingChecks.class, task)) {
            results.forEach((name, failure) -> assertEquals("", failure, name + ", seed " + task.seed()));
        }
    }
}
