package cs336.scaling;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.units.Bytes;
import cs336.units.Tokens;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.util.HashSet;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Checks each answer to the problem {@code communication_accounting} with an independent calculation. */
class CommunicationAccountingTest {
    private static final List<Tokens> BATCHES = List.of(new Tokens(1), new Tokens(2048), new Tokens(8192));

    /** Input and output width of every matrix of the model. */
    private static final int[][] MATRICES = new int[252][];

    static {
        for (int i = 0; i < 252; i++) {
            MATRICES[i] = i % 2 == 0 ? new int[] {16384, 53248} : new int[] {53248, 16384};
        }
    }

    private static BigInteger parameters() {
        BigInteger sum = BigInteger.ZERO;
        for (int[] m : MATRICES) {
            sum = sum.add(BigInteger.valueOf(m[0]).multiply(BigInteger.valueOf(m[1])));
        }
        return sum;
    }

    /** Each matrix keeps its input in bf16. */
    private static BigInteger kept(long tokens) {
        BigInteger sum = BigInteger.ZERO;
        for (int[] m : MATRICES) {
            sum = sum.add(BigInteger.valueOf(2L * m[0]).multiply(BigInteger.valueOf(tokens)));
        }
        return sum;
    }

    @Test
    void fourFp32TensorsAre16BytesPerParameter() {
        assertEquals(parameters(), BigInteger.valueOf(ModelShape.XXL.parameters()));
        assertEquals(
                parameters().multiply(BigInteger.valueOf(16)),
                BigInteger.valueOf(
                        TrainingState.MIXED.bytes(ModelShape.XXL.parameters()).count()));
        assertEquals(4, TrainingState.MIXED.tensors(1).size());
    }

    @Test
    void keptActivationsAreProportionalToTheTokens() {
        for (Tokens tokens : BATCHES) {
            assertEquals(
                    kept(tokens.count()),
                    BigInteger.valueOf(ModelShape.XXL.kept(tokens).count()));
        }
    }

    @Test
    void theNumberOfDevicesIsTheSmallestThatFits() {
        var limit = new BigDecimal("95e9");
        for (Tokens tokens : BATCHES) {
            var half = new BigDecimal(kept(tokens.count())).divide(BigDecimal.valueOf(2));
            var split = new BigDecimal(parameters().multiply(BigInteger.valueOf(16))).add(half);
            int n = 1;
            while (split.divide(BigDecimal.valueOf(n), 9, RoundingMode.CEILING)
                            .add(half)
                            .compareTo(limit)
                    >= 0) {
                n++;
            }
            var memory = new FsdpMemory(ModelShape.XXL, TrainingState.MIXED, tokens, 0.5);
            assertEquals(n, memory.devicesToFit(Accelerator.TPU_V5P.memory()), tokens.toString());
            assertTrue(memory.perDevice(n).count() < 95_000_000_000L);
            assertTrue(memory.perDevice(n - 1).count() >= 95_000_000_000L);
        }
    }

    @Test
    void aBatchWhoseUnsplitHalfFillsADeviceIsRejected() {
        var memory = new FsdpMemory(ModelShape.XXL, TrainingState.MIXED, new Tokens(16_384), 0.5);
        var error =
                assertThrows(IllegalArgumentException.class, () -> memory.devicesToFit(Accelerator.TPU_V5P.memory()));
        assertTrue(error.getMessage().contains("16,384 tokens"), error.getMessage());
        long limit = memory.limit(Accelerator.TPU_V5P.memory()).count();
        assertTrue(limit > 10_000 && limit < 11_000, "limit " + limit);
    }

    @Test
    void withTwoBytesOfRoomEachDeviceHoldsOneByteOfTheSplitTensors() {
        var memory = new FsdpMemory(ModelShape.XXL, TrainingState.MIXED, new Tokens(2048), 0.5);
        long whole = memory.whole().count();
        long n = memory.devicesToFit(new Bytes(whole + 2));
        assertEquals(memory.split().count(), n);
        assertEquals(whole + 1, memory.perDevice(n).count());
        assertThrows(IllegalArgumentException.class, () -> memory.devicesToFit(new Bytes(whole + 1)));
    }

    /** Returns whether the forward pass of a block is compute-bound on 16 × 4 chips, from the problem's numbers. */
    private static boolean computeBound(double batch, boolean sequential) {
        double compute = 2 * 2 * batch * 16384 * 53248 / 64 / 4.6e14;
        double weights = 2 * (2.0 * 16384 * 53248 / 4) / (2 * (2 * 9e10)); // two matrices, bf16, two axes
        double activations = 2 * (2.0 * batch / 16 * 16384) / (1 * (2 * 9e10)); // in and out, bf16, one axis
        return compute >= (sequential ? weights + activations : Math.max(weights, activations));
    }

    @Test
    void theBatchIsTheSmallestThatIsComputeBound() {
        var mesh = new ComputeBound(16384, 53248, Accelerator.TPU_V5P, 16, 2, 4, 1);
        long concurrent = mesh.batchConcurrent().count();
        assertTrue(computeBound(concurrent, false));
        assertFalse(computeBound(concurrent - 1.0, false));
        long sequential = mesh.batchSequential().count();
        assertTrue(computeBound(sequential, true));
        assertFalse(computeBound(sequential - 1.0, true));
        assertEquals(20_445, concurrent);
        assertEquals(64, mesh.chips());
    }

    @Test
    void theSmallestBatchOfAnyMeshIsThatOfASearch() {
        double n = 64;
        double alpha = 4.6e14 / 1.8e11;
        double concurrent = Double.POSITIVE_INFINITY;
        double sequential = Double.POSITIVE_INFINITY;
        for (double x = 0.5; x < 64; x *= 1.0001) {
            double y = n / x;
            double left = 1 - y * alpha / 53248;
            if (left >= 0) {
                concurrent = Math.min(concurrent, x * alpha / 2);
            }
            if (left > 0) {
                sequential = Math.min(sequential, x * alpha / 2 / left);
            }
        }
        var mesh = new ComputeBound(16384, 53248, Accelerator.TPU_V5P, 16, 2, 4, 1);
        assertEquals(concurrent, mesh.batchOfBestMeshConcurrent().count(), 2);
        assertEquals(sequential, mesh.batchOfBestMeshSequential().count(), 2);
    }

    @Test
    void atTheBestMeshBothCommunicationsTakeEquallyLong() {
        var batch = new Tokens(1 << 20);
        var any = new ComputeBound(16384, 53248, Accelerator.TPU_V5P, 512, 2, 8, 1);
        int x = (int) Math.round(any.bestFsdp(batch));
        var best = new ComputeBound(16384, 53248, Accelerator.TPU_V5P, x, 2, 1, 1);
        double y = any.chips() / (double) x;
        assertEquals(
                best.gatheringWeights().value() / y,
                best.movingActivations(batch).value(),
                0.01 * best.movingActivations(batch).value());
    }

    @Test
    void tooMuchTensorParallelismIsRejected() {
        var mesh = new ComputeBound(16384, 53248, Accelerator.TPU_V5P, 2, 2, 32, 1);
        var error = assertThrows(IllegalArgumentException.class, mesh::batchConcurrent);
        assertEquals(
                "tensor must be at most 20.8, not 32: beyond that, moving activations takes longer than computing at any"
                        + " batch",
                error.getMessage());
    }

    @Test
    void numbersAreFoundByTheirQuantity() {
        CommunicationAccounting standard = CommunicationAccounting.STANDARD;
        assertEquals(parameters().doubleValue(), standard.value(AccountingQuantity.PARAMETERS));
        assertEquals(kept(2048).doubleValue(), standard.value(AccountingQuantity.KEPT_FOR_BACKWARD, new Tokens(2048)));
        assertEquals(20_445, standard.value(AccountingQuantity.BATCH_CONCURRENT, 16, 4));
        assertEquals(20_445 / 64.0, standard.value(AccountingQuantity.BATCH_PER_CHIP_CONCURRENT, 16, 4));
        var stored = new HashSet<String>();
        for (AccountingQuantity quantity : AccountingQuantity.values()) {
            assertTrue(stored.add(quantity.metric()), quantity + " is stored as another one");
            assertTrue(standard.answers().stream().anyMatch(answer -> answer.quantity() == quantity), "" + quantity);
        }
        var e = assertThrows(
                IllegalArgumentException.class, () -> standard.value(AccountingQuantity.DEVICES, new Tokens(5)));
        assertEquals(
                "no answer has DEVICES for 5 tokens, 0 FSDP devices and 0 tensor-parallel devices", e.getMessage());
    }
}
