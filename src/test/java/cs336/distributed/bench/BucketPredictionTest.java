package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.CommandTest;
import cs336.bench.Project;
import cs336.numbers.MeasurementQuery;
import cs336.units.Seconds;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

class BucketPredictionTest extends CommandTest {
    private static final Seconds BACKWARD = Seconds.ms(200);

    @Test
    void bucketsAreAsManyAsTheMessagesOfMeasuredSteps() {
        var numbers = MeasurementQuery.of(Project.path("data/measurements/h200-x4"));
        for (int processes : new int[] {2, 4}) {
            List<BucketPrediction> predictions = BucketPrediction.of(numbers, processes);
            assertTrue(predictions.size() >= 4, "only " + predictions.size() + " bucket sizes");
            for (BucketPrediction p : predictions) {
                String messages = "ddp_benchmarking[size=xl, context=512, backend=nccl, nodes=1, batch=2, round=1,"
                        + " implementation=plain, mode=bucketed, metric=messages, processes=%d, bucket_mb=%s].median";
                assertEquals(
                        numbers.quantity(messages.formatted(processes, p.bucketMb()))
                                .value(),
                        p.buckets(),
                        "bucket of " + p.bucketMb() + " MB");
                assertTrue(p.predicted() <= p.slowed(), p.toString());
            }
        }
    }

    @Test
    void theEmbeddingTableIsAloneInTheLastSmallBucket() {
        var buckets = BucketPrediction.sequence(BACKWARD, 25_000_000).buckets();
        var last = buckets.get(buckets.size() - 1);
        assertEquals(10_000L * 1600 * 4, last.bytes().count());
        assertEquals(BACKWARD.value(), last.ready().value(), 1e-12);
        assertTrue(buckets.get(0).ready().value() > 0);
    }

    @Test
    void theCommandStoresWhatItPredicts() throws IOException {
        Path machine = Files.createDirectories(folder.resolve("h200-x4"));
        Path stored = Project.path("data/measurements/h200-x4");
        for (String problem :
                List.of("ddp_benchmarking", "ddp_benchmarking_overlap", "distributed_communication_single_node")) {
            Files.copy(stored.resolve(problem + ".csv"), machine.resolve(problem + ".csv"));
        }
        assertEquals(0, run(new DdpCommand(), "--predict-buckets h200-x4"), err.toString());
        var numbers = MeasurementQuery.of(folder.resolve("on-paper"));
        String bucket = "bucket_overhead[processes=2, bucket_mb=1000, metric=%s]";
        assertEquals(9, numbers.quantity(bucket.formatted("buckets")).value());
        BucketPrediction largest =
                BucketPrediction.of(MeasurementQuery.of(stored), 2).get(3);
        assertEquals(
                largest.slowed(),
                numbers.quantity(bucket.formatted("predicted-slowed")).value(),
                1e-6);
        assertTrue(out.toString().contains("stored in"), out.toString());
    }
}
