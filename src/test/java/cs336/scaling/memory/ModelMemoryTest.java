package cs336.scaling.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.basics.TransformerConfig;
import cs336.bench.Pass;
import cs336.bench.Precision;
import cs336.checkpointing.BlockBytes;
import cs336.checkpointing.CheckpointPolicy;
import cs336.profile.memory.MemoryCategory;
import cs336.profile.memory.MemoryPhase;
import cs336.profile.memory.MemoryRecord;
import cs336.profile.memory.PassMemory;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.DeviceKind;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import tech.tablesaw.api.Table;

class ModelMemoryTest {
    /** Bytes of scalars that a graph saves in addition to tensors: constant factors, and the loss with its weight. */
    private static final long SCALARS = 64;

    /** oneDNN packs bf16 matrices for each matmul; how many bytes it needs depends on the CPU's instructions. */
    @BeforeAll
    static void turnOneDnnOff() {
        torch.globalContext().setUserEnabledMkldnn(false);
    }

    @AfterAll
    static void turnOneDnnOn() {
        torch.globalContext().setUserEnabledMkldnn(true);
    }

    private static TransformerConfig config(int year, int d, int layers, int heads, int f, int v, int t) {
        return TransformerConfig.builder()
                .edition(ModelEdition.ofYear(year))
                .vocabSize(v)
                .contextLength(t)
                .dModel(d)
                .numLayers(layers)
                .numHeads(heads)
                .dFf(f)
                .build();
    }

    @ParameterizedTest
    @CsvSource({
        "2025, 64, 2, 2, 256, 500, 2, 64, fp32",
        "2025, 64, 2, 2, 256, 500, 2, 64, bf16",
        "2025, 64, 3, 4, 256, 100, 2, 128, fp32",
        "2025, 128, 2, 2, 512, 1000, 1, 32, fp32",
        "2025, 128, 3, 2, 344, 300, 3, 33, bf16",
        "2024, 64, 2, 2, 256, 2000, 4, 16, fp32",
        "2024, 128, 2, 2, 512, 1000, 1, 32, bf16",
        "2024, 128, 2, 2, 512, 1000, 1, 32, fp32",
    })
    void countedAndMeasuredBytesAgreeExceptForScalars(
            int year, int d, int layers, int heads, int f, int v, int batch, int t, String dtype) {
        TransformerConfig config = config(year, d, layers, heads, f, v, t);
        var counted = new ModelMemory(config, batch, DType.parse(dtype), DeviceKind.CPU);
        for (Pass pass : Pass.values()) {
            MemoryRecord record = PassMemory.of(config, Device.cpu())
                    .batch(batch)
                    .precision(Precision.parse(dtype))
                    .record(pass);
            MemoryPhase forward = record.phase("forward", 1);
            long measured = record.bytes(record.peakEvent(forward.from(), record.events()));
            assertEquals(
                    measured,
                    counted.peak(pass).bytes(),
                    SCALARS * (layers + 2),
                    pass + ": " + counted.peak(pass).name());
            if (pass == Pass.FORWARD_GRAPH) {
                long kept = record.breakdown(forward.until() - 1).get(MemoryCategory.ACTIVATIONS);
                assertEquals(kept, counted.keptBytes(), SCALARS * (layers + 2));
            }
        }
    }

    @ParameterizedTest
    @CsvSource({
        "2025, nothing, fp32",
        "2024, blocks-2, fp32",
        "2025, blocks-4, fp32",
        "2024, recursive, fp32",
        "2025, all-but-ffn, fp32",
        "2025, elementwise, fp32",
        "2024, elementwise, fp32",
        "2025, elementwise+ffn-3, fp32",
        "2025, elementwise+offload-3, fp32", // on the CPU all stay in memory
        "2025, elementwise, bf16",
        "2024, elementwise+ffn-6, bf16",
        "2025, blocks-2, bf16",
        "2024, all-but-ffn, bf16",
    })
    void peaksOfCheckpointingPoliciesArePredicted(int year, String policy, String dtype) {
        TransformerConfig config =
                config(year, 64, 7, 2, 256, 100, 64).withCheckpointing(CheckpointPolicy.parse(policy));
        var counted = new ModelMemory(config, 2, DType.parse(dtype), DeviceKind.CPU);
        for (Pass pass : new Pass[] {Pass.FORWARD_GRAPH, Pass.STEP}) {
            MemoryRecord record = PassMemory.of(config, Device.cpu())
                    .batch(2)
                    .precision(Precision.parse(dtype))
                    .record(pass);
            MemoryPhase forward = record.phase("forward", 1);
            long measured = record.bytes(record.peakEvent(forward.from(), record.events()));
            boolean counts = dtype.equals("fp32") && pass == Pass.STEP;
            assertEquals(
                    measured,
                    counted.peak(pass).bytes(),
                    counts ? SCALARS * 18 : 0.03 * measured,
                    pass + ": " + counted.peak(pass).name());
            if (pass == Pass.FORWARD_GRAPH) {
                long kept = record.breakdown(forward.until() - 1).get(MemoryCategory.ACTIVATIONS);
                assertEquals(kept, counted.keptBytes(), SCALARS * 8);
            }
        }
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "everything",
                "elementwise",
                "elementwise+ffn-5",
                "elementwise+offload-5",
                "elementwise+offload-12",
                "all-but-ffn",
                "blocks-1",
                "blocks-2",
                "blocks-4",
                "recursive"
            })
    @Tag("gpu")
    void peaksOfCheckpointingPoliciesOnAGpuArePredictedWithinFivePercent(String policy) {
        TransformerConfig config =
                config(2025, 1024, 12, 16, 4096, 10_000, 1024).withCheckpointing(CheckpointPolicy.parse(policy));
        for (Precision precision : new Precision[] {Precision.FP32, Precision.BF16}) {
            MemoryRecord record = PassMemory.of(config, Device.cuda(0))
                    .batch(4)
                    .precision(precision)
                    .record(Pass.STEP);
            MemoryPhase forward = record.phase("forward", 1);
            long measured = record.bytes(record.peakEvent(forward.from(), record.events()));
            var counted = new ModelMemory(config, 4, DType.parse(precision.toString()), DeviceKind.CUDA);
            assertEquals(measured, counted.peak(Pass.STEP).bytes(), 0.05 * measured, precision.toString());
        }
    }

    @Test
    void aBudgetForBlocksIsThePeakOfTheirActivations() {
        TransformerConfig config = config(2025, 64, 7, 2, 256, 100, 64);
        BlockBytes block = new ModelMemory(config, 2, DType.FLOAT32, DeviceKind.CPU).blockBytes();
        long everything = 7 * block.kept();
        assertEquals(
                everything,
                MemoryInventory.bytes(new ModelMemory(config, 2, DType.FLOAT32, DeviceKind.CPU).keptByBlock()) * 7);
        long withoutFeedForward =
                config.checkpointing().plan(7).afterForward().bytes(block) - 7 * block.keptByFeedForward();
        TransformerConfig without = config.withCheckpointing(CheckpointPolicy.allButFeedForward());
        var all = new ModelMemory(config, 2, DType.FLOAT32, DeviceKind.CPU);
        var less = new ModelMemory(without, 2, DType.FLOAT32, DeviceKind.CPU);
        assertEquals(everything - withoutFeedForward, all.keptBytes() - less.keptBytes());
        TransformerConfig half = config.withCheckpointing(CheckpointPolicy.budget(everything / 2, block));
        var fits = new ModelMemory(half, 2, DType.FLOAT32, DeviceKind.CPU);
        assertTrue(all.keptBytes() - fits.keptBytes() >= everything / 2);
    }

    @Test
    void aBlockInFp32KeepsTenRowsFourFeedForwardRowsAndTheProbabilities() {
        TransformerConfig config = ModelSize.B2_7.config(ModelEdition.SPRING_2025, 512);
        long n = 4L * 512;
        long rows = n * 2560 * 4;
        long inner = n * 10240 * 4;
        long pairs = 4L * 32 * 512 * 512 * 4;
        long scales = n * 4;
        var memory = new ModelMemory(config, 4, DType.FLOAT32, DeviceKind.CUDA);
        assertEquals(
                10 * rows + 4 * inner + pairs + 2 * scales,
                memory.keptByBlock().stream().mapToLong(TensorMemory::bytes).sum());
    }

    @Test
    void autocastKeepsACastOfEveryMatrixAndNeedsMoreMemoryWithoutAGraph() {
        TransformerConfig config = ModelSize.B2_7.config(ModelEdition.SPRING_2025, 128);
        var narrow = new ModelMemory(config, 4, DType.BFLOAT16, DeviceKind.CUDA);
        var wide = new ModelMemory(config, 4, DType.FLOAT32, DeviceKind.CUDA);
        long casts = narrow.kept().stream()
                .filter(tensor -> tensor.name().startsWith("weight"))
                .mapToLong(TensorMemory::bytes)
                .sum();
        long embeddingsAndNorms = 10_000L * 2560 + (2 * 32 + 1) * 2560;
        assertEquals(2 * (config.parameterCount() - embeddingsAndNorms), casts);
        assertTrue(narrow.peak(Pass.FORWARD).bytes() > wide.peak(Pass.FORWARD).bytes());
    }

    @Test
    void adamWsMomentsAddTwiceTheParameters() {
        TransformerConfig config = config(2025, 64, 2, 2, 256, 500, 64);
        var memory = new ModelMemory(config, 2, DType.FLOAT32, DeviceKind.CPU);
        assertEquals(
                memory.peak(Pass.FORWARD_BACKWARD).bytes() + 8 * config.parameterCount(),
                memory.peak(Pass.STEP).bytes());
    }

    @ParameterizedTest
    @CsvSource({
        "2025, rmsnorm-fused, plain, bf16",
        "2024, layernorm, plain, fp32",
        "2025, rmsnorm, flash, fp32",
        "2025, layernorm, flash, bf16",
        "2025, rmsnorm-fused, sdpa, bf16",
    })
    void otherNormalizationsAndAttentionsAreCountedTensorByTensor(
            int year, String normalization, String attention, String dtype) {
        TransformerConfig config = config(year, 64, 2, 2, 256, 300, 64)
                .withNormalization(normalization)
                .withAttention(attention);
        var counted = new ModelMemory(config, 2, DType.parse(dtype), DeviceKind.CPU);
        for (Pass pass : new Pass[] {Pass.FORWARD_GRAPH, Pass.STEP}) {
            MemoryRecord record = PassMemory.of(config, Device.cpu())
                    .batch(2)
                    .precision(Precision.parse(dtype))
                    .record(pass);
            MemoryPhase forward = record.phase("forward", 1);
            long measured = record.bytes(record.peakEvent(forward.from(), record.events()));
            assertEquals(measured, counted.peak(pass).bytes(), SCALARS * 6, pass.toString());
            if (pass == Pass.FORWARD_GRAPH) {
                long kept = record.breakdown(forward.until() - 1).get(MemoryCategory.ACTIVATIONS);
                assertEquals(kept, counted.keptBytes(), SCALARS * 4);
            }
        }
    }

    @Test
    void aLossInChunksReplacesTheLogitsByTwoGradients() {
        TransformerConfig config = config(2025, 64, 2, 2, 256, 5000, 64);
        var whole = new ModelMemory(config, 2, DType.FLOAT32, DeviceKind.CUDA);
        var chunks = new ModelMemory(config, 2, DType.FLOAT32, DeviceKind.CUDA, DType.FLOAT32, 16);
        long n = 2L * 64;
        assertEquals(4 * (2 * n * 5000 - 64 * 5000), whole.keptBytes() - chunks.keptBytes());
        assertTrue(chunks.peak(Pass.STEP).bytes() < whole.peak(Pass.STEP).bytes());
    }

    @Test
    void theAllocatorRoundsLargeBlocksToSegments() {
        assertEquals(3 * 512, new TensorMemory("small", "", DType.FLOAT32, 3, 100).allocatedBytes());
        assertEquals(26L << 20, new TensorMemory("25 MiB", "", DType.FLOAT32, 1, 25 << 18).allocatedBytes());
        assertEquals(24L << 20, new TensorMemory("24 MiB", "", DType.FLOAT32, 1, 24 << 18).allocatedBytes());
        long quarter = (9L << 20) + (3L << 18); // 9.75 MiB: two fill a segment of 20 MiB, and half a MiB remains
        assertEquals(20L << 20, new TensorMemory("9.75 MiB", "", DType.FLOAT32, 2, quarter / 4).allocatedBytes());
    }

    @Test
    void unsupportedModelsAreRejected() {
        TransformerConfig first = config(2025, 64, 2, 2, 256, 500, 64).withAttention("flash-first");
        assertTrue(assertThrows(
                        IllegalArgumentException.class, () -> new ModelMemory(first, 2, DType.FLOAT32, DeviceKind.CPU))
                .getMessage()
                .startsWith("the memory of rmsnorm with flash-first attention is not predicted"));
    }

    @Test
    void theLargestAllocationsOfAllLayersAreOneRowWithTheirCount() {
        TransformerConfig config = config(2025, 16, 3, 2, 64, 50, 64);
        MemoryRecord record = PassMemory.of(config, Device.cpu()).batch(2).record(Pass.FORWARD);
        MemoryPhase forward = record.phase("forward", 1);
        Table largest = record.largest(forward.from(), forward.until(), 2);
        assertEquals(2, largest.rowCount());
        assertEquals(2L * 2 * 64 * 64 * 4, largest.row(0).getLong("bytes"), "B × H × T × T elements");
        assertEquals(
                "forward: TransformerLM/layers.*/attn/attention.scores",
                largest.row(0).getString("origin"));
        assertEquals(3, largest.row(0).getLong("count"), "one per layer");
    }
}
