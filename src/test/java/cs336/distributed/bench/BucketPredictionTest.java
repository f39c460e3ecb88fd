package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Project;
import cs336.numbers.MeasurementQuery;
import cs336.units.Seconds;
import java.util.List;
import org.junit.jupiter.api.Test;

class BucketPredictionTest {
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
}
