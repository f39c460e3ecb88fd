package cs336.scaling;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.scaling.StepModel.StepLayer;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Seconds;
import cs336.units.Tokens;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;

class SimulatedStepTest {
    private static final Bandwidth INFINITE = new Bandwidth(Double.POSITIVE_INFINITY);

    /** A link without latency; an all-reduce of two ranks takes bytes / 100 seconds. */
    private static final Link LINK = new Link("link", Seconds.ZERO, new Bandwidth(100));

    private static final Cluster CLUSTER = new Cluster(8, LINK, LINK, Seconds.ZERO);

    /** Three blocks of 50 parameters of two bytes; forward 1 s and backward 2 s per block; optimizer 4 s. */
    private static final StepModel MODEL =
            new StepModel(List.of(layer("a", 0), layer("b", 1), layer("c", 2)), new Seconds(4), 1, 5);

    private static StepLayer layer(String name, int block) {
        return new StepLayer(name, block, true, 50, new Seconds(1), new Seconds(2));
    }

    private static SimulatedStep step(Cluster cluster, Mesh mesh, Synchronization synchronization, int prefetch) {
        return new SimulatedStep(
                MODEL, cluster, mesh, DType.BFLOAT16, new Tokens(5), synchronization, prefetch, Overheads.NONE);
    }

    private static double time(Mesh mesh, Synchronization synchronization) {
        return step(CLUSTER, mesh, synchronization, 1).time().value();
    }

    private static final Mesh TWO = Mesh.single().withData(2);

    @Test
    void oneDeviceOnlyComputes() {
        assertEquals(13, time(Mesh.single(), Synchronization.overlapped()));
        assertEquals(13, MODEL.alone().value());
    }

    @Test
    void withoutOverlapComputingAndCommunicatingAddUp() {
        assertEquals(13 + 3, time(TWO, Synchronization.each()));
        assertEquals(13 + 3, time(TWO, Synchronization.flat()));
    }

    @Test
    void withOverlapOnlyTheLastGradientIsExposed() {
        assertEquals(13 + 1, time(TWO, Synchronization.overlapped()));
        // buckets from the last layer on: {c, b}, {a}; then one bucket
        assertEquals(13 + 1, time(TWO, Synchronization.buckets(new Bytes(200))));
        assertEquals(13 + 3, time(TWO, Synchronization.buckets(new Bytes(300))));
        List<Schedule.Span> sent = step(CLUSTER, TWO, Synchronization.buckets(new Bytes(200)), 1)
                .run()
                .on("communication");
        assertEquals(2, sent.size());
        assertEquals(7, sent.get(0).start().value(), "when the gradient of b is ready");
    }

    @Test
    void aSlowNetworkDeterminesTheTime() {
        // all-reduces of 10 s: the first gradient is ready after 5 s, the optimizer follows the third all-reduce
        var slow = new Cluster(8, LINK.withBandwidth(new Bandwidth(10)), LINK, Seconds.ZERO);
        assertEquals(
                5 + 30 + 4,
                step(slow, TWO, Synchronization.overlapped(), 1).time().value());
    }

    @Test
    void withInfiniteBandwidthAndNoLatencyOnlyComputingTakesTime() {
        var free = new Cluster(8, LINK.withBandwidth(INFINITE), LINK.withBandwidth(INFINITE), Seconds.ZERO);
        for (Mesh mesh : List.of(
                TWO,
                TWO.withShards(4, ZeroStage.PARAMETERS),
                TWO.withShards(4, ZeroStage.PARAMETERS).withTensor(2),
                Mesh.single().withShards(16, ZeroStage.OPTIMIZER_STATE))) {
            for (Synchronization how :
                    List.of(Synchronization.each(), Synchronization.flat(), Synchronization.overlapped())) {
                double optimizer = 4.0 / (mesh.shards() * mesh.tensor());
                assertEquals(9 + optimizer, step(free, mesh, how, 0).time().value(), 1e-9, mesh + " " + how);
            }
        }
    }

    @Test
    void zeroOneReduceScattersUpdatesShardsAndGathersTheWeights() {
        // the last reduce-scatter takes 0.5 s, the optimizer 2 s, and gathering 300 bytes 1.5 s
        assertEquals(
                9 + 0.5 + 2 + 1.5,
                time(Mesh.single().withShards(2, ZeroStage.OPTIMIZER_STATE), Synchronization.overlapped()));
    }

    @Test
    void prefetchedGathersAreHiddenAndOthersAreExposed() {
        Mesh fsdp = Mesh.single().withShards(2, ZeroStage.PARAMETERS);
        // six gathers of 0.5 s and three reduce-scatters, which delay the next gather, are all exposed
        assertEquals(
                9 + 6 * 0.5 + 3 * 0.5 + 2,
                step(CLUSTER, fsdp, Synchronization.overlapped(), 0).time().value());
        // only the first gather and the last reduce-scatter are exposed
        assertEquals(
                9 + 0.5 + 0.5 + 2,
                step(CLUSTER, fsdp, Synchronization.overlapped(), 1).time().value());
    }

    @Test
    void tensorParallelismMovesActivationsWithoutOverlap() {
        // 5 tokens × 5 elements are 50 bytes, 0.25 s per collective; a block has 2 forward and 3 backward
        assertEquals(9 + 3 * 5 * 0.25 + 2, time(Mesh.single().withTensor(2), Synchronization.overlapped()));
    }

    @Test
    void replicasOfShardsAllReduceTheirShardAfterTheReduceScatter() {
        // as FSDP on two devices, plus 0.5 s to all-reduce the shard of the last block
        Mesh mesh = TWO.withShards(2, ZeroStage.PARAMETERS);
        assertEquals(9 + 0.5 + 0.5 + 0.5 + 2, time(mesh, Synchronization.overlapped()));
    }

    @Test
    void replicasWhoseShardsAndTensorParallelGroupsFillANodeCommunicateBetweenNodes() {
        Mesh mesh = TWO.withShards(2, ZeroStage.PARAMETERS).withTensor(2);
        var slow = LINK.withBandwidth(new Bandwidth(1));
        double inOneNode =
                step(CLUSTER, mesh, Synchronization.overlapped(), 1).time().value();
        // With 8 GPUs a node, the link between nodes is not used. With 4, all replicas of a shard are on other nodes.
        assertEquals(
                inOneNode,
                step(nodesOf(8, slow), mesh, Synchronization.overlapped(), 1)
                        .time()
                        .value());
        // the all-reduces of the three blocks' shards take 25 s each instead of 0.25 s
        SimulatedStep between = step(nodesOf(4, slow), mesh, Synchronization.overlapped(), 1);
        assertEquals(3 * 25, allReduces(between), 1e-9);
        assertEquals(3 * 0.25, allReduces(step(CLUSTER, mesh, Synchronization.overlapped(), 1)), 1e-9);
    }

    private static Cluster nodesOf(int gpus, Link between) {
        return new Cluster(gpus, LINK, between, Seconds.ZERO);
    }

    private static double allReduces(SimulatedStep step) {
        return step.run().on(SimulatedStep.COMMUNICATION).stream()
                .filter(span -> span.task().startsWith(Collective.ALL_REDUCE.toString()))
                .mapToDouble(span -> span.length().value())
                .sum();
    }

    @Test
    void replicasOfTensorParallelGroupsSendHalfAsMuch() {
        // 1.25 s of activations per block; the last all-reduce takes 0.5 s and begins 0.25 s before the last
        // activations
        // arrive
        Mesh mesh = TWO.withTensor(2);
        assertEquals(9 + 3 * 1.25 - 0.25 + 0.5 + 2, time(mesh, Synchronization.overlapped()));
    }

    @Test
    void theSlowdownDuringCollectivesIsAddedToTheStep() {
        var overheads = new Overheads(Seconds.ZERO, INFINITE, Seconds.ZERO, 0.5);
        var slowed = new SimulatedStep(
                MODEL, CLUSTER, TWO, DType.BFLOAT16, new Tokens(5), Synchronization.overlapped(), 1, overheads);
        // two all-reduces of 1 s under the backward pass halve its speed, so that it ends 1 s later
        assertEquals(13 + 1 + 1, slowed.time().value());
    }

    @Test
    void copyAndStartOverheadsAreAddedToTheStep() {
        assertEquals(13 + 3 + 0.25 + 0.75, timeWithOverheads(Synchronization.flat()));
        assertEquals(13 + 3 + 3 * 0.25, timeWithOverheads(Synchronization.each()));
        // each gradient delays computing by 0.5 s, and the last all-reduce takes 1.25 s
        assertEquals(13 + 3 * 0.5 + 1.25, timeWithOverheads(Synchronization.overlapped()));
        // {c, b} is ready after 7 s, copied and started after 8; {a} is ready after 10 s, copied and started after
        // 10.75
        assertEquals(10.75 + 1.25 + 4, timeWithOverheads(Synchronization.buckets(new Bytes(200))));
    }

    /** Overheads: 0.25 s per collective, copies at 400 bytes/s, 0.5 s for each start. */
    private static double timeWithOverheads(Synchronization how) {
        var overheads = new Overheads(new Seconds(0.25), new Bandwidth(400), new Seconds(0.5), 0);
        return new SimulatedStep(MODEL, CLUSTER, TWO, DType.BFLOAT16, new Tokens(5), how, 1, overheads)
                .time()
                .value();
    }

    @Test
    void withAnyBucketsAllBytesAreSentOnceInTheOrderOfTheBackwardPass() {
        var config = ModelSize.SMALL.config(ModelEdition.SPRING_2025, 128);
        var model = StepModel.of(config, Seconds.ms(10), Seconds.ms(20), Seconds.ms(3));
        assertEquals(config.parameterCount(), model.parameters());
        assertEquals(33, model.alone().ms(), 1e-9);
        double bytes = config.parameterCount() * 4.0;
        for (long megabytes : new long[] {0, 1, 10, 100, 1000}) {
            var step = new SimulatedStep(
                    model,
                    CLUSTER,
                    TWO,
                    DType.FLOAT32,
                    new Tokens(256),
                    Synchronization.buckets(new Bytes(megabytes * 1_000_000)),
                    1,
                    Overheads.NONE);
            Schedule schedule = step.run();
            assertEquals(bytes, schedule.busy("communication").value() * 100, 1e-6 * bytes);
            List<Schedule.Span> backward = schedule.on("compute").stream()
                    .filter(span -> span.task().startsWith("backward"))
                    .toList();
            assertEquals("backward head", backward.get(0).task());
            assertEquals(
                    "backward token embeddings",
                    backward.get(backward.size() - 1).task());
        }
    }

    @Test
    void aPipelineIsRejected() {
        var error = assertThrows(
                IllegalArgumentException.class,
                () -> step(CLUSTER, new Mesh(1, 1, ZeroStage.PARAMETERS, 1, 2), Synchronization.flat(), 1));
        assertTrue(error.getMessage().startsWith("pipeline must be 1, not 2"), error.getMessage());
    }

    @Test
    void layersAreTheParametersOfTheModelInTheOrderOfRegistration() {
        for (ModelEdition edition : ModelEdition.values()) {
            TransformerConfig config = TransformerConfig.builder()
                    .edition(edition)
                    .vocabSize(11)
                    .contextLength(7)
                    .dModel(4)
                    .numLayers(2)
                    .numHeads(2)
                    .dFf(6)
                    .build();
            List<Long> expected;
            try (var model = new TransformerLM(config, Device.cpu())) {
                expected = model.parameters().stream().map(Tensor::numel).toList();
            }
            StepModel step = StepModel.of(config, Seconds.ms(1), Seconds.ms(2), Seconds.ZERO);
            assertEquals(
                    expected, step.layers().stream().map(StepLayer::parameters).toList(), edition.toString());
        }
    }
}
