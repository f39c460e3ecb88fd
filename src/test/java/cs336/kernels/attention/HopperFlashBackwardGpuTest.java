package cs336.kernels.attention;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Compares Hopper's backward kernels with tensor operations in fp64. */
@Tag("gpu")
class HopperFlashBackwardGpuTest {
    private static final int RACES = 200;
    private static final double SUM_ERROR = 4e-6; // per element

    private MemoryScope scope;
    private Device device;

    @BeforeEach
    void open() {
        scope = MemoryScope.open();
        device = Device.cuda(0);
        Torch.seed(336);
    }

    @AfterEach
    void close() {
        device.synchronize();
        scope.close();
    }

    /** Inputs of the backward pass, with o and l from the forward pass in fp64. */
    private record BackwardInputs(Tensor q, Tensor k, Tensor v, Tensor o, Tensor l, Tensor dO, boolean causal) {
        static BackwardInputs of(Tensor q, Tensor k, Tensor v, Tensor dO, boolean causal) {
            FlashVariant.AttentionOutput output = TiledFlash.DEFAULT.forward(wide(q), wide(k), wide(v), causal);
            Tensor o = torch.empty_like(q).copy_(output.o());
            return new BackwardInputs(q, k, v, o, output.l().to(DType.FLOAT32.scalarType()), dO, causal);
        }

        private static Tensor wide(Tensor x) {
            return x.to(DType.FLOAT64.scalarType());
        }

        FlashVariant.AttentionGradients exact() {
            return TiledFlash.DEFAULT.backward(wide(q), wide(k), wide(v), wide(o), wide(l), wide(dO), causal);
        }

        FlashVariant.AttentionGradients run(boolean deterministic) {
            poison();
            return HopperFlashBackward.run(q, k, v, o, l, dO, causal, deterministic);
        }

        /** Fills memory with NaN, so that elements that are not written show. */
        private void poison() {
            List<Tensor> poisoned = new ArrayList<>();
            for (Tensor like : List.of(q, k, v)) {
                poisoned.add(torch.full_like(like, new Scalar(Double.NaN)));
            }
            Tensor workspace = q.repeat(1, 1, 1, 4).to(DType.FLOAT32.scalarType());
            poisoned.add(workspace.fill_(new Scalar(Double.NaN)));
            poisoned.forEach(Tensor::close);
        }
    }

    private Tensor random(DType type, long... shape) {
        return torch.randn(shape, device.options(DType.FLOAT32)).to(type.scalarType());
    }

    private BackwardInputs random(DType type, long heads, long t, long s, long d, boolean causal) {
        return BackwardInputs.of(
                random(type, 1, heads, t, d),
                random(type, 1, heads, s, d),
                random(type, 1, heads, s, d),
                random(type, 1, heads, t, d),
                causal);
    }

    /** Returns the rounding error of the result, and of P and dS before the last matrix multiplication. */
    private static double bound(DType type) {
        return type == DType.BFLOAT16 ? Math.pow(2, -8) : 1.2 * Math.pow(2, -11);
    }

    private static void assertClose(
            FlashVariant.AttentionGradients expected, FlashVariant.AttentionGradients actual, double bound) {
        assertClose("dQ", expected.dQ(), actual.dQ(), bound);
        assertClose("dK", expected.dK(), actual.dK(), bound);
        assertClose("dV", expected.dV(), actual.dV(), bound);
    }

    /** Compares by the norm of the error, plus the error of fp32 sums for gradients that are exactly 0. */
    private static void assertClose(String what, Tensor expected, Tensor actual, double bound) {
        double[] e = Tensors.toDoubles(expected);
        double[] a = Tensors.toDoubles(actual);
        assertEquals(e.length, a.length);
        double difference = 0;
        double size = 0;
        for (int i = 0; i < e.length; i++) {
            difference += (a[i] - e[i]) * (a[i] - e[i]);
            size += e[i] * e[i];
        }
        double error = Math.sqrt(difference);
        double allowed = bound * Math.sqrt(size) + SUM_ERROR * Math.sqrt(e.length);
        assertTrue(error <= allowed, what + " is off by " + error + "; allowed: " + allowed);
    }

    private static Stream<Arguments> kinds() {
        List<Arguments> all = new ArrayList<>();
        for (DType type : List.of(DType.BFLOAT16, DType.FLOAT16)) {
            for (int d : new int[] {8, 16, 32, 40, 64, 96, 128}) {
                for (boolean causal : new boolean[] {true, false}) {
                    all.add(Arguments.of(type, d, causal));
                }
            }
        }
        return all.stream();
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void gradientsAreCloseToFp64ForAllLengths(DType type, int d, boolean causal) {
        long[][] lengths = {{256, 256}, {1000, 1000}, {2, 1}, {300, 700}, {700, 300}, {64, 2000}, {129, 127}};
        for (long[] ts : lengths) {
            BackwardInputs inputs = random(type, 2, ts[0], ts[1], d, causal);
            assertClose(inputs.exact(), inputs.run(false), bound(type));
        }
    }

    @ParameterizedTest
    @CsvSource({"64, 1", "64, 2", "64, 4", "128, 1", "128, 2", "128, 4", "16, 4", "32, 2"})
    void everySplitIsCorrect(int d, int split) {
        BackwardInputs inputs = random(DType.BFLOAT16, 3, 1111, 900, d, true);
        var tile = new HopperBackwardTile(d, split);
        assertClose(inputs.exact(), run(tile, inputs), bound(DType.BFLOAT16));
    }

    private FlashVariant.AttentionGradients run(HopperBackwardTile tile, BackwardInputs inputs) {
        return HopperFlashBackward.run(
                tile, inputs.q(), inputs.k(), inputs.v(), inputs.o(), inputs.l(), inputs.dO(), inputs.causal(), true);
    }

    @ParameterizedTest
    @CsvSource({"64, 1, 1000", "128, 1, 1000", "64, 8, 520", "128, 40, 300", "32, 2, 2000"})
    void dKAndDVAreReproducibleAndDQIfDeterministic(int d, int heads, int length) {
        for (boolean causal : new boolean[] {true, false}) {
            BackwardInputs inputs = random(DType.BFLOAT16, heads, length, length, d, causal);
            FlashVariant.AttentionGradients first = inputs.run(true);
            for (int i = 0; i < RACES; i++) {
                try (var inner = MemoryScope.open()) {
                    boolean deterministic = i % 2 == 0;
                    FlashVariant.AttentionGradients again = inputs.run(deterministic);
                    assertTrue(first.dK().equal(again.dK()), "dK, run " + i);
                    assertTrue(first.dV().equal(again.dV()), "dV, run " + i);
                    if (deterministic) {
                        assertTrue(first.dQ().equal(again.dQ()), "dQ, run " + i);
                    }
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"BFLOAT16", "FLOAT16"})
    void allStridesAndAddressesWork(DType type) {
        Tensor q = random(type, 2, 300, 3, 64).transpose(1, 2); // heads adjacent
        Tensor k = random(type, 2, 3, 64, 200).transpose(2, 3); // columns are not adjacent
        Tensor v = random(type, 2 * 3 * 200 * 64 + 1)
                .narrow(0, 1, 2 * 3 * 200 * 64)
                .view(2, 3, 200, 64); // odd address
        List<Tensor> gradients = List.of(
                random(type, 1, 1, 1, 64).expand(2, 3, 300, 64), // strides of 0,
                random(type, 1, 1, 1, 1).expand(2, 3, 300, 64), // in all dimensions, as the gradient of a sum
                random(type, 2, 3, 64, 300).transpose(2, 3));
        for (Tensor dO : gradients) {
            BackwardInputs inputs = BackwardInputs.of(q, k, v, dO, true);
            assertClose(inputs.exact(), inputs.run(false), bound(type));
        }
    }

    @Test
    void threeDimensionalInputsAreOneSequence() {
        BackwardInputs inputs = random(DType.BFLOAT16, 3, 200, 200, 64, true);
        FlashVariant.AttentionGradients with = inputs.run(true);
        FlashVariant.AttentionGradients without = HopperFlashBackward.run(
                inputs.q().squeeze(0),
                inputs.k().squeeze(0),
                inputs.v().squeeze(0),
                inputs.o().squeeze(0),
                inputs.l().squeeze(0),
                inputs.dO().squeeze(0),
                true,
                true);
        assertArrayEquals(new long[] {3, 200, 64}, Tensors.shape(without.dQ()));
        assertTrue(with.dQ().squeeze(0).equal(without.dQ()));
        assertTrue(with.dK().squeeze(0).equal(without.dK()));
    }

    @Test
    void aQueryWithoutKeysContributesNoGradient() {
        BackwardInputs inputs = random(DType.BFLOAT16, 1, 300, 300, 64, false);
        inputs.l().narrow(2, 100, 50).fill_(new Scalar(Double.NEGATIVE_INFINITY));
        inputs.o().narrow(2, 100, 50).zero_();
        FlashVariant.AttentionGradients gradients = inputs.run(true);
        inputs.dO().narrow(2, 100, 50).zero_();
        FlashVariant.AttentionGradients expected = recomputed(inputs).run(true);
        assertTrue(expected.dK().equal(gradients.dK()));
        assertTrue(expected.dV().equal(gradients.dV()));
        assertEquals(
                0,
                gradients.dQ().narrow(2, 100, 50).abs().max().item_double(),
                "largest gradient of a query without keys");
    }

    /** Returns the inputs with o and l recomputed, so that l is finite. */
    private static BackwardInputs recomputed(BackwardInputs x) {
        return BackwardInputs.of(x.q(), x.k(), x.v(), x.dO(), x.causal());
    }

    @Test
    void keysThatNoQueryAttendsToGetZeros() {
        FlashVariant.AttentionGradients gradients =
                random(DType.BFLOAT16, 2, 70, 600, 64, true).run(false);
        for (Tensor gradient : List.of(gradients.dK(), gradients.dV())) {
            assertEquals(0, gradient.narrow(2, 70, 530).abs().max().item_double());
        }
    }
}
