package cs336.scaling;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.units.Tokens;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class StepCommunicationTest {
    private static final ModelShape MODEL =
            ModelShape.feedForward("tiny", 4, 10, 40, DType.BFLOAT16); // 3,200 parameters
    private static final Tokens TOKENS = new Tokens(8);

    private static Mesh pipeline(int stages) {
        return new Mesh(1, 1, ZeroStage.PARAMETERS, 1, stages);
    }

    private static long sent(Mesh mesh, int microBatches) {
        return new StepCommunication(MODEL, TrainingState.MIXED, mesh, TOKENS, microBatches)
                .sent()
                .count();
    }

    @Test
    void oneDeviceSendsNothing() {
        assertEquals(0, sent(Mesh.single(), 4));
    }

    @Test
    void eachKindOfParallelismIsCountedByHand() {
        // 6,400 bytes of gradients, of which three quarters are sent twice
        assertEquals(9_600, sent(Mesh.single().withData(4), 1));
        assertEquals(9_600, sent(Mesh.single().withShards(4, ZeroStage.OPTIMIZER_STATE), 1));
        assertEquals(14_400, sent(Mesh.single().withShards(4, ZeroStage.PARAMETERS), 1));
        // 8 tokens × 10 elements × 2 bytes, half of it sent; 4 blocks × (3 gathers + 2 reduce-scatters)
        assertEquals(4 * 5 * 80, sent(Mesh.single().withTensor(2), 1));
        // of two stages one sends activations, the other one gradients; with more, those in the middle send both
        assertEquals(160, sent(pipeline(2), 1));
        assertEquals(2 * 160, sent(pipeline(3), 1));
        assertEquals(2 * 160, sent(pipeline(4), 1));
    }

    @Test
    void zeroOneSendsAsMuchAsAnAllReduceAndFsdpOneAndAHalfTimes() {
        for (int n : new int[] {2, 8, 1024}) {
            long replicas = sent(Mesh.single().withData(n), 1);
            assertEquals(replicas, sent(Mesh.single().withShards(n, ZeroStage.OPTIMIZER_STATE), 1), 1);
            assertEquals(1.5 * replicas, sent(Mesh.single().withShards(n, ZeroStage.PARAMETERS), 1), 2);
        }
    }

    @Test
    void replicasOfShardsAllReduceOnlyTheirShard() {
        long shards = sent(Mesh.single().withShards(4, ZeroStage.PARAMETERS), 1);
        long replicas = sent(Mesh.single().withData(2).withShards(4, ZeroStage.PARAMETERS), 1) - shards;
        assertEquals(2 * (6_400 / 4) / 2, replicas);
    }

    /** Stage 2 keeps only a shard of the sum of gradients, so it reduces those of each micro-batch. */
    @Test
    void zeroTwoReducesTheGradientsOfEachMicroBatch() {
        assertEquals(9_600, sent(Mesh.single().withShards(4, ZeroStage.OPTIMIZER_STATE), 16));
        assertEquals(4_800 + 16 * 4_800, sent(Mesh.single().withShards(4, ZeroStage.GRADIENTS), 16));
    }

    @Test
    void microBatchesRepeatAllTransfersButTheGradientsOfReplicas() {
        assertEquals(sent(Mesh.single().withData(4), 1), sent(Mesh.single().withData(4), 16));
        Stream.of(
                        Mesh.single().withShards(4, ZeroStage.PARAMETERS),
                        Mesh.single().withTensor(2),
                        pipeline(2))
                .forEach(mesh -> assertEquals(16 * sent(mesh, 1), sent(mesh, 16), mesh.toString()));
    }

    @Test
    void thePipelineBubbleShrinksWithMoreMicroBatches() {
        var step = new StepCommunication(MODEL, TrainingState.MIXED, pipeline(4), TOKENS, 1);
        assertEquals(0.75, step.bubble());
        assertEquals(3 / 15.0, new StepCommunication(MODEL, TrainingState.MIXED, step.mesh(), TOKENS, 12).bubble());
        assertTrue(new StepCommunication(MODEL, TrainingState.MIXED, Mesh.single(), TOKENS, 1).bubble() == 0);
    }
}
