package cs336.distributed.launch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cs336.distributed.collectives.Reduction;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
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
    void numberOfRanksIsChecked() {
        assertEquals(
                "ranks must be from 1 to 16, not 0",
                assertThrows(IllegalArgumentException.class, () -> RankThreads.run(0, group -> 0))
                        .getMessage());
    }
}
