package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.launch.Launcher;
import cs336.torch.Device;
import cs336.torch.DeviceKind;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** All-reduces on GPUs. {@link AllReduceBenchmark} checks the sum of each of them. */
@Tag("gpu")
class AllReduceGpuTest {
    private static final AllReducePlan PLAN = AllReducePlan.of(1_000_000L, 100_000_000L);

    private static List<AllReduceTimes> run(int processes, CollectiveBackend backend) throws InterruptedException {
        return Launcher.of(processes)
                .backend(backend)
                .device(DeviceKind.CUDA)
                .run(AllReduceRank.class, PLAN)
                .get(0);
    }

    @Test
    void ncclIsTimedSynchronizedAndBackToBack() throws InterruptedException {
        int gpus = Math.min(2, Device.cudaCount());
        for (AllReduceTimes times : run(gpus, CollectiveBackend.NCCL)) {
            assertEquals(gpus, times.ranks());
            assertEquals(10, times.queued().size());
            assertTrue(times.summary().median() > 0);
        }
    }

    @Test
    void glooReducesTensorsOnGpusThatRanksShare() throws InterruptedException {
        List<AllReduceTimes> times = run(Device.cudaCount() + 1, CollectiveBackend.GLOO);
        assertTrue(times.get(1).summary().median() > times.get(0).summary().median(), "100 MB take longer than 1 MB");
    }
}
