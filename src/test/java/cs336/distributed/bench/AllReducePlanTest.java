package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import org.junit.jupiter.api.Test;

class AllReducePlanTest {
    @Test
    void sizesArePositiveMultiplesOfAnFp32Element() {
        assertEquals(List.of(4L, 512_000L), AllReducePlan.of(4L, 512_000L).bytes());
        for (long size : new long[] {0, -4, 6}) {
            assertEquals(
                    "bytes must be positive multiples of 4, not " + size,
                    assertThrows(IllegalArgumentException.class, () -> AllReducePlan.of(4L, size))
                            .getMessage());
        }
    }
}
