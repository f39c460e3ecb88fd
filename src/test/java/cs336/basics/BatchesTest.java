package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class BatchesTest extends ScopedTest {
    private static final Device CPU = Device.cpu();

    private static int[] ascending(int length) {
        int[] tokens = new int[length];
        Arrays.setAll(tokens, i -> i);
        return tokens;
    }

    @Test
    void targetsAreTheNextTokens() {
        Batches.Batch batch = Batches.fromTokens(ascending(1000), 16, 8, CPU, 7).next();
        assertEquals(DType.INT64, DType.of(batch.inputs()));
        assertArrayEquals(new long[] {16, 8}, Tensors.shape(batch.inputs()));
        assertTrue(torch.equal(batch.inputs().add(new Scalar(1)), batch.targets()));
        Tensor differences = batch.inputs().diff(); // along a row
        assertTrue(torch.equal(differences, torch.ones_like(differences)));
    }

    @Test
    void allStartsAreEquallyLikely() {
        Batches batches = Batches.fromTokens(ascending(10), 1000, 7, CPU, 1);
        Tensor starts = batches.next().inputs().select(1, 0);
        Map<Long, Integer> counts = new TreeMap<>();
        for (int i = 0; i < 1000; i++) {
            counts.merge(starts.select(0, i).item_long(), 1, Integer::sum);
        }
        assertEquals("[0, 1, 2]", counts.keySet().toString());
        counts.values().forEach(count -> assertEquals(333, count, 75)); // five standard deviations
    }

    @Test
    void theShortestTextHasOneSequence() {
        Batches.Batch batch =
                Batches.fromTokens(new int[] {5, 6, 7}, 2, 2, CPU, 1).next();
        assertTrue(torch.equal(batch.inputs(), Tensor.create(new long[] {5, 6, 5, 6}, 2, 2)));
        assertTrue(torch.equal(batch.targets(), Tensor.create(new long[] {6, 7, 6, 7}, 2, 2)));
    }

    @Test
    void randomTokensFillTheVocabulary() {
        Batches.Batch batch = Batches.random(5, 20, 30, CPU, 3).next();
        for (Tensor tensor : new Tensor[] {batch.inputs(), batch.targets()}) {
            assertEquals(DType.INT64, DType.of(tensor));
            assertArrayEquals(new long[] {20, 30}, Tensors.shape(tensor));
            assertEquals(0, tensor.min().item_long());
            assertEquals(4, tensor.max().item_long());
        }
        assertFalse(torch.equal(batch.inputs(), batch.targets()));
    }

    @Test
    void theSeedDeterminesTheBatches() {
        Batches one = Batches.random(100, 4, 8, CPU, 3);
        Batches same = Batches.random(100, 4, 8, CPU, 3);
        Tensor first = one.next().inputs();
        assertTrue(torch.equal(first, same.next().inputs()));
        assertFalse(torch.equal(first, one.next().inputs()));
        assertFalse(torch.equal(first, Batches.random(100, 4, 8, CPU, 4).next().inputs()));
    }

    @Test
    void sizesOutOfRangeAreNamed() {
        assertNames("vocabSize", () -> Batches.random(0, 1, 1, CPU, 1));
        assertNames("batchSize", () -> Batches.random(1, 0, 1, CPU, 1));
        assertNames("contextLength", () -> Batches.random(1, 1, 0, CPU, 1));
        assertNames(
                "tokens must contain more than contextLength 3 tokens, not 3",
                () -> Batches.fromTokens(new int[3], 1, 3, CPU, 1));
    }

    private static void assertNames(String argument, org.junit.jupiter.api.function.Executable call) {
        var error = assertThrows(IllegalArgumentException.class, call);
        assertTrue(error.getMessage().startsWith(argument), error.getMessage());
    }

    @Test
    void skippedSequencesAreThoseThatWouldHaveBeenDrawn() {
        int[] tokens = IntStream.range(0, 1000).toArray();
        Batches drawn = Batches.fromTokens(tokens, 2, 5, Device.cpu(), 7);
        Batches skipping = Batches.fromTokens(tokens, 2, 5, Device.cpu(), 7);
        try (var scope = MemoryScope.open()) {
            for (int batches = 0; batches < 4; batches++) {
                for (int i = 0; i < batches; i++) {
                    drawn.next();
                }
                skipping.skip(2 * batches);
                assertTrue(drawn.next().inputs().equal(skipping.next().inputs()));
            }
        }
    }
}
