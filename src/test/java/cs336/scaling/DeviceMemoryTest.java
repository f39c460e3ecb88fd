package cs336.scaling;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.scaling.memory.ModelMemory;
import cs336.scaling.memory.TensorMemory;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Tokens;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class DeviceMemoryTest {
    private static final ModelShape MODEL = ModelShape.feedForward("tiny", 4, 10, 40, DType.BFLOAT16);
    private static final Tokens TOKENS = new Tokens(6);
    private static final int MICRO_BATCHES = 2;

    private static long bytes(Mesh mesh, String tensor) {
        return new DeviceMemory(MODEL, TrainingState.MIXED, mesh, TOKENS, MICRO_BATCHES)
                .tensors().stream()
                        .filter(each -> each.name().startsWith(tensor))
                        .mapToLong(each -> each.bytes().count())
                        .sum();
    }

    @Test
    void everyTensorOfATinyModelIsCountedByHand() {
        // 4 blocks of 10 × 40 + 40 × 10 = 800 parameters: 3,200 in all; a token keeps 4 × 50 elements
        Mesh one = Mesh.single();
        assertEquals(12_800, bytes(one, "master weights"));
        assertEquals(12_800, bytes(one, "accumulated gradients"));
        assertEquals(25_600, bytes(one, "AdamW"));
        assertEquals(1_600, bytes(one, "weights of a block, cast"));
        assertEquals(6 * 4 * 50 * 2, bytes(one, "kept"));
        assertEquals(
                12_800 + 12_800 + 25_600 + 1_600 + 2_400,
                new DeviceMemory(MODEL, TrainingState.MIXED, one, TOKENS, MICRO_BATCHES)
                        .total()
                        .count());
    }

    @Test
    void eachZeroStageShardsOneMoreTensor() {
        Mesh zero1 = Mesh.single().withShards(4, ZeroStage.OPTIMIZER_STATE);
        Mesh zero2 = Mesh.single().withShards(4, ZeroStage.GRADIENTS);
        Mesh fsdp = Mesh.single().withShards(4, ZeroStage.PARAMETERS);
        assertEquals(List.of(12_800L, 12_800L, 3_200L), largest(zero1, "master weights"));
        assertEquals(List.of(12_800L, 3_200L, 3_200L), largest(zero2, "master weights"));
        assertEquals(List.of(3_200L, 3_200L, 3_200L), largest(fsdp, "master weights"));
        assertEquals(3_200, bytes(fsdp, "weights of two blocks, gathered"));
        assertEquals(bytes(zero1, "kept"), bytes(fsdp, "kept"));
    }

    private static List<Long> largest(Mesh mesh, String first) {
        return new DeviceMemory(MODEL, TrainingState.MIXED, mesh, TOKENS, MICRO_BATCHES)
                .tensors().stream().limit(3).map(each -> each.bytes().count()).toList();
    }

    @Test
    void tensorAndPipelineParallelismSplitTheModelAndReplicasDoNot() {
        assertEquals(6_400, bytes(Mesh.single().withTensor(2), "master weights"));
        assertEquals(1_200, bytes(Mesh.single().withTensor(2), "kept"));
        assertEquals(6_400, bytes(new Mesh(1, 1, ZeroStage.PARAMETERS, 1, 2), "master weights"));
        // half of the blocks, but two micro-batches
        assertEquals(2_400, bytes(new Mesh(1, 1, ZeroStage.PARAMETERS, 1, 2), "kept"));
        // a single micro-batch
        var memory =
                new DeviceMemory(MODEL, TrainingState.MIXED, new Mesh(1, 1, ZeroStage.PARAMETERS, 1, 2), TOKENS, 1);
        assertEquals(
                1_200,
                memory.tensors().stream()
                        .filter(each -> each.name().startsWith("kept"))
                        .mapToLong(each -> each.bytes().count())
                        .sum());
        assertEquals(12_800, bytes(Mesh.single().withData(2), "master weights"));
        var all = new Mesh(2, 4, ZeroStage.PARAMETERS, 2, 2);
        assertEquals(32, all.devices());
        assertEquals(8, all.batchShards());
        assertEquals(800, bytes(all, "master weights"));
    }

    @Test
    void modelShapesAgreeWithConfigurationsAndModelMemory() {
        for (ModelSize size : ModelSize.values()) {
            for (ModelEdition form : ModelEdition.values()) {
                var config = size.config(form, 128);
                ModelShape shape = ModelShape.of(size.label(), config, DType.FLOAT32);
                assertEquals(config.parameterCount(), shape.parameters());
                var memory = new ModelMemory(config, 2, DType.FLOAT32, DeviceKind.CUDA);
                long blocks = config.numLayers()
                        * memory.keptByBlock().stream()
                                .mapToLong(TensorMemory::bytes)
                                .sum();
                assertEquals(blocks, shape.kept(Tokens.of(2, 128)).count(), 0.001 * blocks);
            }
        }
    }

    @Test
    void wrongArgumentsAreNamed() {
        var error =
                assertThrows(IllegalArgumentException.class, () -> Mesh.single().withTensor(0));
        assertEquals("tensor must be at least 1, not 0", error.getMessage());
        error = assertThrows(IllegalArgumentException.class, () -> Bytes.parse("95 gigabytes"));
        assertTrue(error.getMessage().startsWith("bytes '95 gigabytes' must be a number and a unit"));
        assertThrows(IllegalArgumentException.class, () -> new FsdpMemory(MODEL, TrainingState.MIXED, TOKENS, 1.5));
    }

    @Test
    void amountsThatExceed64BitsAreNamed() {
        var error = assertThrows(IllegalArgumentException.class, () -> Bytes.parse("99999999999999TB"));
        assertEquals("bytes '99999999999999TB' must be at most 2^63 - 1 B, about 9,223,372 TB", error.getMessage());
        String limit = " exceed the largest amount, 2^63 - 1";
        var bytes = new Bytes(1L << 62);
        assertOverflow("4611686018427387904 + 4611686018427387904 bytes" + limit, () -> bytes.plus(bytes));
        assertOverflow("4611686018427387904 × 4 bytes" + limit, () -> Bytes.of(1L << 62, 4));
        assertOverflow("4611686018427387904 × 3 bytes" + limit, () -> bytes.times(3L));
        assertOverflow("4294967296 × 2147483648 tokens" + limit, () -> Tokens.of(1L << 32, 1L << 31));
        assertOverflow("2 × 9223372036854775807 tokens" + limit, () -> new Tokens(2).times(Long.MAX_VALUE));
    }

    private static void assertOverflow(String message, Executable calculation) {
        assertEquals(
                message, assertThrows(ArithmeticException.class, calculation).getMessage());
    }

    @Test
    void bytesAreParsedAndPrintedInDecimalAndBinaryUnits() {
        assertEquals(95_000_000_000L, Bytes.parse("95GB").count());
        assertEquals(85_899_345_920L, Bytes.parse("80 GiB").count());
        assertEquals("85.9 GB (80.0 GiB)", Bytes.parse("80 GiB").toString());
        assertEquals(4, new Bytes(10).sharedBy(3).count());
        assertEquals(2.0, new Bytes(1_000_000_000).over(Bandwidth.gb(0.5)).value());
    }
}
