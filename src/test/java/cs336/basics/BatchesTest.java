package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.Tensors;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class BatchesTest extends ScopedTest {
    private static final Device CPU = Device.cpu();

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
    }

    private static void assertNames(String argument, org.junit.jupiter.api.function.Executable call) {
        var error = assertThrows(IllegalArgumentException.class, call);
        assertTrue(error.getMessage().startsWith(argument), error.getMessage());
    }
}
