package cs336.distributed.collectives;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import cs336.distributed.launch.Launcher;
import cs336.distributed.launch.RankFailure;
import cs336.distributed.launch.RankProgram;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.DeviceKind;
import cs336.torch.MemoryScope;
import java.time.Duration;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Tag("gpu")
@Timeout(120)
class ProcessGroupGpuTest {
    @Test
    void ncclRunsEveryCollectiveOnOneRank() throws Exception {
        ProcessGroupTest.requireEveryCollective(Launcher.of(1).backend(CollectiveBackend.NCCL), 1);
    }

    @Test
    void ncclRunsEveryCollectiveOnTwoRanks() throws Exception {
        requireGpus(2);
        ProcessGroupTest.requireEveryCollective(Launcher.of(2).backend(CollectiveBackend.NCCL), 2);
    }

    @Test
    void glooSupportsGpusThatRanksShare() throws Exception {
        int ranks = Device.cudaCount() == 1 ? 2 : 3;
        ProcessGroupTest.requireEveryCollective(Launcher.of(ranks).device(DeviceKind.CUDA), ranks);
    }

    @Test
    void moreNcclRanksThanGpusAreAnError() {
        int gpus = Device.cudaCount();
        var e = assertThrows(
                RankFailure.class,
                () -> Launcher.of(gpus + 1)
                        .backend(CollectiveBackend.NCCL)
                        .run(ProcessGroupTest.EveryCollective.class, 1L));
        assertTrue(e.getMessage().contains("nccl needs a GPU for each rank"), e.getMessage());
    }

    /** Runs all-reduces without end, until rank 1 is disturbed. */
    public static final class EndlessNcclAllReduce implements RankProgram<String, Integer> {
        @Override
        public Integer run(ProcessGroup group, String how) throws Exception {
            for (int step = 0; ; step++) {
                try (var scope = MemoryScope.open()) {
                    if (step == 100 && group.rank() == 1) {
                        disturb(how);
                    }
                    Tensor t = torch.ones(new long[] {1_000_000}, group.device().options(DType.FLOAT32));
                    group.allReduce(t, Reduction.SUM);
                    if (step % 10 == 0) {
                        group.device().synchronize();
                    }
                }
            }
        }

        private static void disturb(String how) throws Exception {
            switch (how) {
                case "killed" ->
                    new ProcessBuilder("sh", "-c", "kill -9 $PPID").start().waitFor();
                case "hangs" -> Thread.sleep(600_000);
                case "throws" -> throw new IllegalStateException("rank 1 has had enough");
                default -> throw new AssertionError(how);
            }
        }
    }

    @Test
    void aDisturbedNcclRankEndsAllInTime() throws Exception {
        requireGpus(2);
        for (String how : new String[] {"killed", "hangs", "throws"}) {
            long start = System.nanoTime();
            var launcher = Launcher.of(2).backend(CollectiveBackend.NCCL).timeout(Duration.ofSeconds(8));
            var e = assertThrows(RankFailure.class, () -> launcher.run(EndlessNcclAllReduce.class, how));
            double seconds = (System.nanoTime() - start) / 1e9;
            System.out.printf("%s: %.1f s, %s%n", how, seconds, e.getMessage());
            assertTrue(e.rank() == 1, e.getMessage());
            assertTrue(seconds < 8 + 5 + 10, "took " + seconds + " s, of which loading is not counted in the bound");
        }
    }

    private static void requireGpus(int least) {
        assumeTrue(Device.cudaCount() >= least, "needs " + least + " GPUs");
    }
}
