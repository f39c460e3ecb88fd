package cs336.kernels.gemm;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.kernels.runtime.GridDim;
import org.junit.jupiter.api.Test;

class TileDivisionTest {
    private static final int CLUSTERS = 66;

    @Test
    void aClusterOfTwoBlocksComputesATileOrAPart() {
        assertEquals(new GridDim(40), TileDivision.whole(20).grid(CLUSTERS));
        assertEquals(new GridDim(120), new TileDivision(0, 20, 3).grid(CLUSTERS));
        assertEquals(new GridDim(30), new TileDivision(3, 6, 2).grid(CLUSTERS));
    }

    @Test
    void noMoreClustersAreLaunchedThanRunAtTheSameTime() {
        assertEquals(new GridDim(132), TileDivision.whole(67).grid(CLUSTERS));
        assertEquals(new GridDim(132), new TileDivision(66, 14, 4).grid(CLUSTERS));
    }
}
