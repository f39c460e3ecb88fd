package cs336.checkpointing;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.distributed.launch.FailingWellTest;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.MemoryStats;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

class HostStoreTest extends ScopedTest {
    private static final int BLOCKS = 6;

    /** A chain of blocks x → sigmoid(2x) · wx, which keep 2x and wx in the store. */
    private static Tensor chain(ActivationStore store, Tensor x, Tensor weight) {
        if (store instanceof HostStore host) {
            host.beginPass();
        }
        Tensor y = x;
        for (int i = 0; i < BLOCKS; i++) {
            Tensor next = block(store, y, weight);
            y = store instanceof HostStore host ? host.endBlock(next) : next;
        }
        return y;
    }

    private static Tensor block(ActivationStore store, Tensor x, Tensor weight) {
        try (var scope = MemoryScope.open()) {
            Tensor[] kept = {x.mul(new Scalar(2)), x.mul(weight)};
            return scope.escape(
                    ActivationCheckpoint.applyAll(store, HostStoreTest::gate, HostStoreTest::gate, kept)[0]);
        }
    }

    private static Tensor[] gate(Tensor... in) {
        return new Tensor[] {torch.sigmoid(in[0]).mul(in[1])};
    }

    private static Tensor leaf(Device device, long... shape) {
        return leaf(device, DType.FLOAT32, shape);
    }

    private static Tensor leaf(Device device, DType dtype, long... shape) {
        return torch.randn(shape, device.options(dtype)).set_requires_grad(true);
    }

    private static List<double[]> results(ActivationStore store, Tensor x, Tensor weight) {
        try (var scope = MemoryScope.open()) {
            Tensor y = chain(store, x, weight);
            Tensor[] gradients = Backward.of(y.square().sum()).gradients(x, weight);
            return List.of(Tensors.toDoubles(y), Tensors.toDoubles(gradients[0]), Tensors.toDoubles(gradients[1]));
        }
    }

    private static void requireSame(Device device, HostStore host, long... shape) {
        Tensor x = leaf(device, shape);
        Tensor weight = leaf(device, shape);
        List<double[]> expected = results(ActivationStore.graph(), x, weight);
        List<double[]> actual = results(host, x, weight);
        for (int i = 0; i < expected.size(); i++) {
            assertArrayEquals(expected.get(i), actual.get(i), "result " + i);
        }
    }

    @Test
    void theSameBits() {
        var host = new HostStore();
        for (long rows : new long[] {1, 7, 0}) {
            requireSame(Device.cpu(), host, rows, 3);
        }
    }

    @Test
    void inputsMayBeIntegersOrRequireNoGradient() {
        Tensor x = leaf(Device.cpu(), 4, 3);
        Tensor scale = torch.randn(4, 3);
        Tensor rows = Tensors.of(new long[] {2, 0, 2}, 3);
        Function<Tensor[], Tensor[]> select =
                in -> new Tensor[] {torch.sigmoid(in[0].mul(in[1])).index_select(0, in[2])};
        List<double[]> results = new ArrayList<>();
        for (ActivationStore store : List.of(ActivationStore.graph(), new HostStore())) {
            Tensor y = ActivationCheckpoint.applyAll(store, select, select, x, scale, rows)[0];
            results.add(Tensors.toDoubles(Backward.of(y.square().sum()).gradients(x)[0]));
        }
        assertArrayEquals(results.get(0), results.get(1));
    }

    @Test
    void afterThePassesNothingRefersToTheInputs() {
        var host = new HostStore();
        for (boolean isAbandoned : new boolean[] {true, false}) {
            Tensor[] kept = {
                leaf(Device.cpu(), 4, 3).mul(new Scalar(2)),
                leaf(Device.cpu(), 4, 3).mul(new Scalar(2))
            };
            long before = kept[0].storage().use_count();
            try (var scope = MemoryScope.open()) {
                host.beginPass();
                Tensor y = ActivationCheckpoint.applyAll(host, HostStoreTest::gate, HostStoreTest::gate, kept)[0];
                assertTrue(kept[0].storage().use_count() > before);
                if (!isAbandoned) {
                    host.endBlock(host.endBlock(y)).sum().backward();
                }
            }
            if (isAbandoned) {
                host.beginPass();
            }
            assertEquals(before, kept[0].storage().use_count());
        }
    }

    @Test
    void anAbandonedForwardPassDisturbsNoLaterOne() {
        var host = new HostStore();
        chain(host, leaf(Device.cpu(), 4, 3), leaf(Device.cpu(), 4, 3));
        requireSame(Device.cpu(), host, 4, 3);
    }

    /** The gradients of the two passes are added in another order than those of one, so the last bits differ. */
    @Test
    void twoForwardPassesBeforeTheirBackwardPasses() {
        var host = new HostStore();
        Tensor x = leaf(Device.cpu(), DType.FLOAT64, 4, 3);
        Tensor weight = leaf(Device.cpu(), DType.FLOAT64, 4, 3);
        Tensor sum = chain(host, x, weight).sum().add(chain(host, x, weight).sum());
        Tensor twice = chain(ActivationStore.graph(), x, weight).sum().mul(new Scalar(2));
        double[] expected = Tensors.toDoubles(Backward.of(twice).gradients(x)[0]);
        double largest = Arrays.stream(expected).map(Math::abs).max().orElseThrow();
        assertArrayEquals(expected, Tensors.toDoubles(Backward.of(sum).gradients(x)[0]), 1e-13 * largest);
    }

    @Test
    void aSecondBackwardPassComputesTheSame() {
        Tensor x = leaf(Device.cpu(), 4, 3);
        Tensor loss = chain(new HostStore(), x, leaf(Device.cpu(), 4, 3)).sum();
        Tensor first = Backward.of(loss).retainGraph().gradients(x)[0];
        assertArrayEquals(
                Tensors.toDoubles(first), Tensors.toDoubles(Backward.of(loss).gradients(x)[0]));
    }

    @Test
    void anInputThatIsChangedInPlaceIsReported() {
        var host = new HostStore();
        Tensor a = leaf(Device.cpu(), 4, 3).mul(new Scalar(2));
        Tensor b = leaf(Device.cpu(), 4, 3).mul(new Scalar(2));
        Tensor y = ActivationCheckpoint.applyAll(host, HostStoreTest::gate, HostStoreTest::gate, a, b)[0];
        b.mul_(new Scalar(2));
        assertThrows(RuntimeException.class, () -> y.sum().backward());
        host.endBlock(y);
        String message = assertThrows(IllegalStateException.class, () -> host.endBlock(y))
                .getMessage();
        assertEquals(
                "input 1 of a checkpointed function was changed in place before its copy to the host had ended",
                message);
    }

    @Test
    @Tag("gpu")
    void anAbandonedForwardPassLeavesNoMemory() {
        requireNoMemoryLeft(HostStoreTest::chain);
    }

    @Test
    @Tag("gpu")
    void aFailedBackwardPassLeavesNoMemory() {
        requireNoMemoryLeft((host, x, weight) -> {
            host.beginPass();
            Tensor first = new FailingWellTest.Faulty().apply(host.endBlock(block(host, x, weight)))[0];
            Tensor second = host.endBlock(block(host, first, weight)); // prefetches the inputs of the first
            assertThrows(
                    ArithmeticException.class, () -> Backward.of(second.sum()).gradients(x));
        });
    }

    private interface Pass {
        void run(HostStore host, Tensor x, Tensor weight);
    }

    private static void requireNoMemoryLeft(Pass pass) {
        Device device = Device.cuda(0);
        Tensor x = leaf(device, 1 << 20);
        Tensor weight = leaf(device, 1 << 20);
        var host = new HostStore();
        long before = MemoryStats.current(device);
        for (int i = 0; i < 3; i++) {
            try (var scope = MemoryScope.open()) {
                pass.run(host, x, weight);
            }
            host.beginPass();
            assertEquals(before, MemoryStats.current(device));
        }
    }

    @Test
    @Tag("gpu")
    void theSameBitsIfTheEngineRunsTheBackwardPassAndCopiesTakeLongerThanBlocks() {
        Device device = Device.cuda(0);
        Tensor x = leaf(device, 16 << 20);
        Tensor weight = leaf(device, 16 << 20);
        double[][] gradients = new double[2][];
        for (int i = 0; i < 2; i++) {
            try (var scope = MemoryScope.open()) {
                chain(i == 0 ? ActivationStore.graph() : new HostStore(), x, weight)
                        .sum()
                        .backward();
                gradients[i] = Tensors.toDoubles(x.grad());
                x.mutable_grad().reset();
            }
        }
        assertArrayEquals(gradients[0], gradients[1]);
    }

    @Test
    void secondDerivativesAreRefused() {
        Tensor x = leaf(Device.cpu(), 4, 3);
        Tensor loss = chain(new HostStore(), x, leaf(Device.cpu(), 4, 3)).sum();
        Tensor gradient = Backward.of(loss).createGraph().gradients(x)[0];
        String message = assertThrows(
                        RuntimeException.class,
                        () -> Backward.of(gradient.square().sum()).gradients(x))
                .getMessage();
        assertTrue(message.contains("no second derivative"), message);
    }

    @Test
    @Tag("gpu")
    void theSameBitsOnAGpuInEachOfManySteps() {
        var host = new HostStore();
        for (int step = 0; step < 20; step++) {
            requireSame(Device.cuda(0), host, 1000, 1 + 97 * step);
        }
    }

    @Test
    @Tag("gpu")
    void onlyTheBlocksThatRunOccupyTheGpu() {
        Device device = Device.cuda(0);
        int bytes = 64 << 20;
        Tensor x = leaf(device, bytes / Float.BYTES);
        Tensor weight = leaf(device, bytes / Float.BYTES);
        for (int step = 0; step < 3; step++) {
            try (var scope = MemoryScope.open()) {
                long before = MemoryStats.current(device);
                MemoryStats.resetPeak(device);
                Tensor y = chain(new HostStore(), x, weight);
                // the outputs of all blocks, and the two tensors of the last block that are being copied
                assertEquals(BLOCKS + 2, (MemoryStats.current(device) - before) / bytes);
                Backward.of(y.sum()).gradients(x, weight);
                long peak = MemoryStats.peak(device) - before;
                assertTrue(peak < (BLOCKS + 12L) * bytes, "peak " + peak);
            }
        }
    }
}
