package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.distributed.launch.Launcher;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class CollectiveTourTest {
    @Test
    void everyCollectiveReturnsTheExpectedElements() throws InterruptedException {
        List<ArrayList<CollectiveTour.TourStop>> ranks = Launcher.of(3).run(CollectiveTour.class, 1);
        Map<String, List<List<Double>>> expected = Map.of(
                "all-reduce, sum", everywhere(30, 33, 36),
                "all-reduce, average", everywhere(10, 11, 12),
                "all-reduce, max", everywhere(20, 21, 22),
                "broadcast from rank 1", everywhere(10, 11, 12),
                "all-gather", everywhere(0, 10, 20),
                "reduce-scatter, sum", List.of(List.of(30.0), List.of(33.0), List.of(36.0)));
        assertEquals(3, ranks.size());
        for (int rank = 0; rank < 3; rank++) {
            List<String> names = ranks.get(rank).stream()
                    .map(CollectiveTour.TourStop::collective)
                    .sorted()
                    .toList();
            assertEquals(expected.keySet().stream().sorted().toList(), names, "collectives of rank " + rank);
            for (CollectiveTour.TourStop stop : ranks.get(rank)) {
                String where = stop.collective() + " on rank " + rank;
                assertEquals(expected.get(stop.collective()).get(rank), stop.after(), where);
                assertEquals(10.0 * rank, stop.before().get(0), where);
            }
        }
    }

    private static List<List<Double>> everywhere(double... values) {
        List<Double> boxed = Arrays.stream(values).boxed().toList();
        return List.of(boxed, boxed, boxed);
    }
}
