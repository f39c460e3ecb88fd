package cs336.distributed.bench;

import static cs336.numbers.CalculatedResults.number;
import static cs336.units.UnitFactors.MB;

import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.bench.Case;
import cs336.bench.Measurement;
import cs336.distributed.training.BucketLayout;
import cs336.numbers.CalculatedResults;
import cs336.numbers.Header;
import cs336.numbers.MeasurementQuery;
import cs336.scaling.BucketModel;
import cs336.scaling.BucketSequence;
import cs336.scaling.BucketSequence.CompleteBucket;
import cs336.scaling.StepModel;
import cs336.scaling.StepModel.StepLayer;
import cs336.scaling.TimeBySize;
import cs336.torch.DType;
import cs336.units.Bytes;
import cs336.units.Seconds;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.Table;

/**
 * The exposed communication of one bucket size, as measured and as predicted from the buckets of {@link BucketLayout}
 * and from all-reduces that were measured separately. The backward pass is the measured one without communication,
 * distributed over the matrices in proportion to their sizes ({@link StepModel}).
 *
 * @param processes number of GPUs
 * @param bucketMb maximum size of a bucket in MB (10⁶ bytes)
 * @param buckets number of buckets
 * @param lastMb size of the last bucket in MB
 * @param predicted prediction in ms, with the times of separate all-reduces
 * @param slowed prediction in ms with all-reduces that are slowed by the backward pass, as in the recorded step
 * @param measured measured median in ms
 */
public record BucketPrediction(
        @Header("GPUs") int processes,
        @Header("bucket (MB)") double bucketMb,
        int buckets,
        @Header("last bucket (MB)") double lastMb,
        @Header("predicted (ms)") double predicted,

        @Header("predicted, all-reduce slowed by overlap (ms)")
        double slowed,

        @Header("measured (ms)") double measured) {
    private static final ModelSize SIZE = ModelSize.XL;
    private static final int CONTEXT = 512;
    private static final DType DTYPE = DType.FLOAT32;
    private static final String STEPS =
            "ddp_benchmarking[size=" + SIZE.label() + ", year=2025, batch=2, context=" + CONTEXT + ", dtype=" + DTYPE
                    + ", backend=nccl, nodes=1, round=1, implementation=plain, processes=%d, mode=%s]";
    private static final String RECORDED = "ddp_benchmarking_overlap[size=" + SIZE.label() + ", context=" + CONTEXT
            + ", backend=nccl, processes=2, round=1, mode=%s, metric=communication].median";
    private static final String ALL_REDUCES =
            "distributed_communication_single_node[backend=nccl, nodes=1, implementation=java, metric=queued, processes=%d]";

    /**
     * Returns predictions for all measured bucket sizes of the xl model with sequences of 512 tokens, on two and four
     * GPUs.
     *
     * @param numbers measurements of a machine: data-parallel steps, recorded steps and all-reduces
     */
    public static List<BucketPrediction> of(MeasurementQuery numbers) {
        return Stream.of(2, 4)
                .flatMap(processes -> of(numbers, processes).stream())
                .toList();
    }

    /** Returns the predictions for this number of GPUs. */
    static List<BucketPrediction> of(MeasurementQuery numbers, int processes) {
        Seconds backward = backward(numbers, processes);
        TimeBySize allReduce = allReduces(numbers, processes);
        double slowdown = Math.max(1, slowdown(numbers));
        var predictions = new ArrayList<BucketPrediction>();
        Table measured = numbers.selectWithNumbers(
                refined(STEPS.formatted(processes, "bucketed"), "metric=communication"), "bucket_mb");
        for (Row row : measured.sortOn("bucket_mb")) {
            double megabytes = row.getNumber("bucket_mb");
            BucketSequence sequence = sequence(backward, Math.round(megabytes * MB));
            List<CompleteBucket> buckets = sequence.buckets();
            predictions.add(new BucketPrediction(
                    processes,
                    megabytes,
                    buckets.size(),
                    buckets.get(buckets.size() - 1).bytes().count() / MB,
                    sequence.exposed(backward, allReduce::at, 1).ms(),
                    sequence.exposed(backward, allReduce::at, slowdown).ms(),
                    row.getDouble("median")));
        }
        return predictions;
    }

    /**
     * Returns the buckets of a maximum size with the times at which they are complete.
     *
     * @param backward time of the whole backward pass
     */
    static BucketSequence sequence(Seconds backward, long mostBytes) {
        var config = SIZE.config(ModelEdition.SPRING_2025, CONTEXT);
        List<StepLayer> layers =
                StepModel.of(config, Seconds.ZERO, backward, Seconds.ZERO).layers();
        double[] ready = new double[layers.size()];
        double elapsed = 0;
        for (int i = layers.size() - 1; i >= 0; i--) {
            elapsed += layers.get(i).backward().value();
            ready[i] = elapsed;
        }
        List<BucketLayout.ParameterSize> sizes = layers.stream()
                .map(layer -> new BucketLayout.ParameterSize(layer.parameters(), DTYPE))
                .toList();
        List<CompleteBucket> buckets = new ArrayList<>();
        for (BucketLayout.Bucket bucket : BucketLayout.of(sizes, mostBytes).buckets()) {
            int last = bucket.parameters().get(bucket.parameters().size() - 1);
            buckets.add(new CompleteBucket(new Bytes(bucket.bytes()), new Seconds(ready[last])));
        }
        return new BucketSequence(buckets);
    }

    /**
     * Returns the model of equal buckets whose call overhead is the time by which each additional bucket lengthens the
     * measured backward pass.
     *
     * @param numbers measurements of a machine: data-parallel steps on two GPUs and all-reduces
     */
    public static BucketModel withMeasuredOverhead(MeasurementQuery numbers) {
        String small = refined(STEPS.formatted(2, "bucketed"), "bucket_mb=10");
        String large = refined(STEPS.formatted(2, "bucketed"), "bucket_mb=1000");
        double ms = median(numbers, small, "backward") - median(numbers, large, "backward");
        double more = median(numbers, small, "messages") - median(numbers, large, "messages");
        var gradients = new Bytes(Math.round(median(numbers, STEPS.formatted(2, "none"), "gradient-bytes")));
        var gigabyte = new Bytes(1_000_000_000);
        return BucketModel.equalTimes(
                gradients, gigabyte.in(allReduces(numbers, 2).at(gigabyte)), Seconds.ms(ms / more));
    }

    /** Stores these predictions and the optimum number of equal buckets. */
    static void store(List<BucketPrediction> predictions, MeasurementQuery numbers, CalculatedResults results)
            throws IOException {
        for (BucketPrediction p : predictions) {
            results.put(
                    parameters(p.processes).with("bucket_mb", p.bucketMb),
                    List.of(
                            number("buckets", "", p.buckets),
                            number("last-bucket", "MB", p.lastMb),
                            number("predicted", "ms", p.predicted),
                            number("predicted-slowed", "ms", p.slowed),
                            number("measured", "ms", p.measured)));
        }
        BucketModel model = withMeasuredOverhead(numbers);
        List<Measurement> best = List.of(
                number("call-overhead", "us", model.callOverhead().us()),
                number("bandwidth", "GB/s", model.bandwidth().gb()),
                number("slowdown", "", slowdown(numbers)),
                number("best-buckets", "", model.bestBuckets()),
                number("best-bucket", "MB", model.bestBucket().count() / MB));
        results.put(parameters(2).with("bucket_mb", "0"), best);
    }

    private static Case parameters(int processes) {
        return Case.measuredHere("calculator")
                .with("size", SIZE.label())
                .with("context", CONTEXT)
                .with("processes", processes);
    }

    private static Seconds backward(MeasurementQuery numbers, int processes) {
        return Seconds.ms(median(numbers, STEPS.formatted(processes, "none"), "backward"));
    }

    /**
     * Returns the time of all-reduces that overlap with computation, divided by that of an all-reduce after the
     * backward pass.
     */
    private static double slowdown(MeasurementQuery numbers) {
        return numbers.quantity(RECORDED.formatted("bucketed")).value()
                / numbers.quantity(RECORDED.formatted("flat")).value();
    }

    private static TimeBySize allReduces(MeasurementQuery numbers, int processes) {
        Map<Bytes, Seconds> times = new LinkedHashMap<>();
        for (Row row : numbers.select(ALL_REDUCES.formatted(processes))) {
            var bytes = new Bytes(Math.round(row.getNumber("megabytes") * MB));
            times.put(bytes, Seconds.ms(row.getDouble("median")));
        }
        return new TimeBySize(times);
    }

    private static double median(MeasurementQuery numbers, String selection, String metric) {
        return numbers.quantity(refined(selection, "metric=" + metric) + ".median")
                .value();
    }

    private static String refined(String selection, String filter) {
        return selection.replace("]", ", " + filter + "]");
    }
}
