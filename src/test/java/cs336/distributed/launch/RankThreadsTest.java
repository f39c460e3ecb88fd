package cs336.distributed.launch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Reduction;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(300)
class RankThreadsTest {
    @Test
    void ranksCommunicateAndReturnTheirValuesInOrder() throws Exception {
        List<String> values = RankThreads.run(3, group -> {
            try (var scope = MemoryScope.open()) {
                Tensor mine = Tensors.of(new double[] {group.rank() + 1}, 1);
                group.allReduce(mine, Reduction.SUM);
                return group.rank() + " of " + group.size() + ": " + mine.item_double();
            }
        });
        assertEquals(List.of("0 of 3: 6.0", "1 of 3: 6.0", "2 of 3: 6.0"), values);
    }

    @Test
    void failedRankIsNamedAndEndsTheRun() {
        var failure = assertThrows(
                IllegalStateException.class,
                () -> RankThreads.run(2, group -> {
                    if (group.rank() == 1) {
                        throw new IllegalArgumentException("bad shard");
                    }
                    group.barrier();
                    return 0;
                }));
        assertEquals("rank 1: bad shard", failure.getMessage());
        assertEquals(IllegalArgumentException.class, failure.getCause().getClass());
    }

    @Test
    void noRankOfAFailedRunTakesWhatIsMeantForALaterRun() throws Exception {
        var link = new LinkedBlockingQueue<Integer>();
        var waiting = new CountDownLatch(1);
        assertThrows(
                IllegalStateException.class,
                () -> RankThreads.run(2, group -> {
                    if (group.rank() == 1) {
                        waiting.countDown();
                        return link.take();
                    }
                    waiting.await();
                    throw new IllegalArgumentException("bad shard");
                }));
        List<Integer> values = RankThreads.run(2, group -> {
            if (group.rank() == 1) {
                return link.poll(120, TimeUnit.SECONDS);
            }
            link.add(7);
            return 0;
        });
        assertEquals(Arrays.asList(0, 7), values);
    }

    @Test
    void theGroupIsClosedAfterTheRun() throws Exception {
        var groups = new LinkedBlockingQueue<ProcessGroup>();
        RankThreads.run(1, group -> groups.add(group));
        assertThrows(
                IllegalStateException.class,
                () -> RankThreads.run(1, group -> {
                    groups.add(group);
                    throw new IllegalArgumentException("bad shard");
                }));
        assertEquals(2, groups.size());
        for (ProcessGroup group : groups) {
            var closed = assertThrows(IllegalStateException.class, group::barrier);
            assertEquals("the process group is closed", closed.getMessage());
        }
    }

    @Test
    void numberOfRanksIsChecked() {
        assertEquals(
                "ranks must be from 1 to 16, not 0",
                assertThrows(IllegalArgumentException.class, () -> RankThreads.run(0, group -> 0))
                        .getMessage());
    }
}
