package cs336.distributed.training;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.Arrays;
import org.bytedeco.javacpp.DoublePointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class TensorStorageTest {
    @Test
    void viewsAndSavedTensorsSeeTheNewMemory() {
        try (var scope = MemoryScope.open()) {
            Tensor memory = torch.randn(new long[] {3, 4}, Device.cpu().options(DType.FLOAT64));
            double[] values = Tensors.toDoubles(memory);
            Tensor weight = memory.detach();
            weight.set_data(memory);
            Tensor transposed = weight.t();
            Tensor x = torch.randn(new long[] {2, 4}, Device.cpu().options(DType.FLOAT64))
                    .set_requires_grad(true);
            Tensor y = torch.linear(x, weight).sum(); // saves the transposed weight
            TensorStorage.free(memory);
            assertEquals(0, memory.storage().nbytes());
            assertEquals(0, transposed.storage().nbytes());
            assertArrayEquals(new long[] {3, 4}, Tensors.shape(memory));
            TensorStorage.allocate(memory);
            assertEquals(96, transposed.storage().nbytes());
            double[] other = Arrays.stream(values).map(value -> 2 * value).toArray();
            new DoublePointer(memory.data_ptr()).put(other); // as a collective does
            assertArrayEquals(other, Tensors.toDoubles(transposed.t()));
            y.backward();
            assertEquals(other[1] + other[5] + other[9], Tensors.toDoubles(x.grad())[1], 1e-12);
        }
    }

    @Test
    void freeingAndAllocatingLeaksNoNativeObjects() {
        try (var scope = MemoryScope.open()) {
            Tensor tensor = torch.ones(8);
            long before = Pointer.totalCount();
            for (int i = 0; i < 20; i++) {
                TensorStorage.free(tensor);
                TensorStorage.allocate(tensor);
            }
            assertEquals(before, Pointer.totalCount(), 2); // other threads create objects too
        }
    }
}
