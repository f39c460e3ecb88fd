package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag("gpu")
class CudaGraphGpuTest {
    private final Device device = Device.cuda(0);

    @Test
    void aReplayComputesFromTheInputsOfThatTime() {
        try (var scope = MemoryScope.open();
                var graph = CudaGraph.on(device)) {
            Tensor x = torch.ones(new long[] {1_000}, device.options(DType.FLOAT32));
            Tensor y = torch.zeros_like(x);
            Runnable work = () -> {
                try (var inner = MemoryScope.open()) {
                    y.copy_(x.mul(x).add(x));
                }
            };
            graph.warmUp(work);
            y.fill_(new Scalar(Double.NaN));
            graph.record(work);
            assertTrue(Double.isNaN(Tensors.toDoubles(y)[0]), "recording computes nothing");
            for (int i = 2; i < 6; i++) {
                x.fill_(new Scalar((double) i));
                graph.replay();
                assertEquals(i * i + i, Tensors.toDoubles(y)[999]);
            }
        }
    }

    @Test
    void workThatWaitsForTheGpuIsRefusedAndOtherWorkCanThenBeRecorded() {
        try (var scope = MemoryScope.open();
                var graph = CudaGraph.on(device)) {
            Tensor x = torch.ones(new long[] {4}, device.options(DType.FLOAT32));
            Tensor y = torch.zeros_like(x);
            graph.warmUp(() -> x.sum().item_double());
            var error = assertThrows(
                    IllegalStateException.class,
                    () -> graph.record(() -> x.sum().item_double()));
            assertTrue(
                    error.getMessage().startsWith("the work cannot be recorded as a CUDA graph"), error.getMessage());
            assertEquals(4, x.sum().item_double(), "plain work goes on");
            graph.record(() -> y.copy_(x));
            graph.replay();
            assertArrayEquals(new double[] {1, 1, 1, 1}, Tensors.toDoubles(y));
        }
    }

    @Test
    void anErrorInTheWorkEndsTheCapture() {
        try (var scope = MemoryScope.open();
                var graph = CudaGraph.on(device)) {
            Tensor x = torch.ones(new long[] {4}, device.options(DType.FLOAT32));
            Tensor y = torch.zeros_like(x);
            graph.warmUp(() -> y.copy_(x));
            var error = assertThrows(
                    AssertionError.class,
                    () -> graph.record(() -> {
                        throw new AssertionError("not today");
                    }));
            assertEquals("not today", error.getMessage());
            assertEquals(0, CudaGraph.captureInProgress());
            y.fill_(new Scalar(0));
            graph.record(() -> y.copy_(x));
            graph.replay();
            assertArrayEquals(new double[] {1, 1, 1, 1}, Tensors.toDoubles(y));
        }
    }

    @Test
    void aContinuationOfAClosedGraphIsRefused() {
        try (var scope = MemoryScope.open()) {
            Tensor x = torch.ones(new long[] {4}, device.options(DType.FLOAT32));
            var graph = CudaGraph.on(device);
            graph.warmUp(() -> x.add_(x));
            graph.record(() -> x.add_(x));
            CudaGraph next = graph.continued();
            graph.close();
            next.warmUp(() -> x.add_(x));
            var error = assertThrows(IllegalStateException.class, () -> next.record(() -> x.add_(x)));
            assertEquals("the graph that this one continues is closed", error.getMessage());
            assertEquals(0, CudaGraph.captureInProgress());
            next.close();
        }
    }

    @Test
    void wrongUseIsRefused() {
        assertThrows(IllegalArgumentException.class, () -> CudaGraph.on(Device.cpu()));
        var graph = CudaGraph.on(device);
        assertThrows(IllegalStateException.class, graph::replay);
        graph.close();
        graph.close();
        assertThrows(IllegalStateException.class, () -> graph.warmUp(() -> {}));
    }
}
