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

/** Hopper's backward kernels on a card, against tensor operations in fp64. */
@Tag("gpu")
class HopperFlashBackwardGpuTest {
    private static final int RACES = 200;
    private static final double OF_SUMS = 4e-6; // an element

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
    private record Inputs(Tensor q, Tensor k, Tensor v, Tensor o, Tensor l, Tensor dO, boolean causal) {
        static Inputs of(Tensor q, Tensor k, Tensor v, Tensor dO, boolean causal) {
            FlashVariant.Attended attended = TiledFlash.DEFAULT.forward(wide(q), wide(k), wide(v), causal);
            Tensor o = torch.empty_like(q).copy_(attended.o());
            return new Inputs(q, k, v, o, attended.l().to(DType.FLOAT32.scalarType()), dO, causal);
        }

        private static Tensor wide(Tensor x) {
            return x.to(DType.FLOAT64.scalarType());
        }

        FlashVariant.Gradients exact() {
            return TiledFlash.DEFAULT.backward(wide(q), wide(k), wide(v), wide(o), wide(l), wide(dO), causal);
        }

        FlashVariant.Gradients run(boolean deterministic) {
            poison();
            return HopperFlashBackward.run(q, k, v, o, l, dO, causal, deterministic);
        }

        /** Memory that is handed out next holds NaN: what is not written shows. */
        private void poison() {
            List<Tensor> poisoned = new ArrayList<>();
            for (Tensor like : List.of(q, k, v)) poisoned.add(torch.full_like(like, new Scalar(Double.NaN)));
            Tensor workspace = q.repeat(1, 1, 1, 4).to(DType.FLOAT32.scalarType());
            poisoned.add(workspace.fill_(new Scalar(Double.NaN)));
            poisoned.forEach(Tensor::close);
        }
    }

    private Tensor random(DType type, long... shape) {
        return torch.randn(shape, device.options(DType.FLOAT32)).to(type.scalarType());
    }

    private Inputs random(DType type, long heads, long t, long s, long d, boolean causal) {
        return Inputs.of(
                random(type, 1, heads, t, d),
                random(type, 1, heads, s, d),
                random(type, 1, heads, s, d),
                random(type, 1, heads, t, d),
                causal);
    }

    /** Rounding of the type, of the result as well as of P and dS before the last product. */
    private static double bound(DType type) {
        return type == DType.BFLOAT16 ? Math.pow(2, -8) : 1.2 * Math.pow(2, -11);
    }

    private static void assertClose(FlashVariant.Gradients expected, FlashVariant.Gradients actual, double bound) {
        assertClose("dQ", expected.dQ(), actual.dQ(), bound);
        assertClose("dK", expected.dK(), actual.dK(), bound);
        assertClose("dV", expected.dV(), actual.dV(), bound);
    }

    /** By the root of the summed squares, beside what sums in fp32 leave where the exact gradient is 0. */
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
        double allowed = bound * Math.sqrt(size) + OF_SUMS * Math.sqrt(e.length);
        assertTrue(error <= allowed, what + " is off by " + error + "; allowed: " + allowed);
    }

    private static Stream<Arguments> kinds() {
        List<Arguments> all = new ArrayList<>();
        for (DType type : List.of(DType.BFLOAT16, DType.FLOAT16)) {
            for (int d : new int[] {8, 16, 32, 40, 64, 96, 128}) {
                for (boolean causal : new boolean[] {true, false}) all.add(Arguments.of(type, d, causal));
            }
        }
        return all.stream();
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void gradientsAreThoseOfDoublesWhateverTheLengths(DType type, int d, boolean causal) {
        long[][] lengths = {{256, 256}, {1000, 1000}, {2, 1}, {300, 700}, {700, 300}, {64, 2000}, {129, 127}};
        for (long[] ts : lengths) {
            Inputs inputs = random(type, 2, ts[0], ts[1], d, causal);
            assertClose(inputs.exact(), inputs.run(false), bound(type));
        }
    }

    @ParameterizedTest
    @CsvSource({"64, 1", "64, 2", "64, 4", "128, 1", "128, 2", "128, 4", "16, 4", "32, 2"})
    void everyNumberOfBlocksThatShareATileIsRight(int d, int split) {
        Inputs inputs = random(DType.BFLOAT16, 3, 1111, 900, d, true);
        var tile = new HopperBackwardTile(d, split);
        assertClose(inputs.exact(), run(tile, inputs), bound(DType.BFLOAT16));
    }

    private FlashVariant.Gradients run(HopperBackwardTile tile, Inputs inputs) {
        return HopperFlashBackward.run(
                tile, inputs.q(), inputs.k(), inputs.v(), inputs.o(), inputs.l(), inputs.dO(), inputs.causal(), true);
    }

    @ParameterizedTest
    @CsvSource({"64, 1, 1000", "128, 1, 1000", "64, 8, 520", "128, 40, 300", "32, 2, 2000"})
    void gradientsRepeatBitForBitThatOfQueriesInTurns(int d, int heads, int length) {
        for (boolean causal : new boolean[] {true, false}) {
            Inputs inputs = random(DType.BFLOAT16, heads, length, length, d, causal);
            FlashVariant.Gradients first = inputs.run(true);
            for (int i = 0; i < RACES; i++) {
                try (var inner = MemoryScope.open()) {
                    boolean inTurns = i % 2 == 0;
                    FlashVariant.Gradients again = inputs.run(inTurns);
                    assertTrue(first.dK().equal(again.dK()), "dK, run " + i);
                    assertTrue(first.dV().equal(again.dV()), "dV, run " + i);
                    if (inTurns) assertTrue(first.dQ().equal(again.dQ()), "dQ, run " + i);
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"BFLOAT16", "FLOAT16"})
    void inputsOfAnyStridesAndAddressesWork(DType type) {
        Tensor q = random(type, 2, 300, 3, 64).transpose(1, 2); // heads beside each other
        Tensor k = random(type, 2, 3, 64, 200).transpose(2, 3); // columns are not neighbours
        Tensor v = random(type, 2 * 3 * 200 * 64 + 1)
                .narrow(0, 1, 2 * 3 * 200 * 64)
                .view(2, 3, 200, 64); // odd address
        List<Tensor> gradients = List.of(
                random(type, 1, 1, 1, 64).expand(2, 3, 300, 64), // strides of 0,
                random(type, 1, 1, 1, 1).expand(2, 3, 300, 64), // all of them, as of a sum
                random(type, 2, 3, 64, 300).transpose(2, 3));
        for (Tensor dO : gradients) {
            Inputs inputs = Inputs.of(q, k, v, dO, true);
            assertClose(inputs.exact(), inputs.run(false), bound(type));
        }
    }

    @Test
    void threeDimensionsAreOneHeadEach() {
        Inputs inputs = random(DType.BFLOAT16, 3, 200, 200, 64, true);
        FlashVariant.Gradients with = inputs.run(true);
        FlashVariant.Gradients without = HopperFlashBackward.run(
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
    void aQueryWithoutKeysHandsNoGradientOn() {
        Inputs inputs = random(DType.BFLOAT16, 1, 300, 300, 64, false);
        inputs.l().narrow(2, 100, 50).fill_(new Scalar(Double.NEGATIVE_INFINITY));
        inputs.o().narrow(2, 100, 50).zero_();
        FlashVariant.Gradients gradients = inputs.run(true);
        inputs.dO().narrow(2, 100, 50).zero_();
        FlashVariant.Gradients expected = recomputed(inputs).run(true);
        assertTrue(expected.dK().equal(gradients.dK()));
        assertTrue(expected.dV().equal(gradients.dV()));
        assertEquals(
                0,
                gradients.dQ().narrow(2, 100, 50).abs().max().item_double(),
                "largest gradient of a query without keys");
    }

    /** The same with a finite l throughout. */
    private static Inputs recomputed(Inputs x) {
        return Inputs.of(x.q(), x.k(), x.v(), x.dO(), x.causal());
    }

    @Test
    void keysThatNoQuerySeesGetZeros() {
        FlashVariant.Gradients gradients =
                random(DType.BFLOAT16, 2, 70, 600, 64, true).run(false);
        for (Tensor gradient : List.of(gradients.dK(), gradients.dV())) {
            assertEquals(0, gradient.narrow(2, 70, 530).abs().max().item_double());
        }
    }
}
