package cs336.kernels.attention;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.kernels.runtime.Gpu;
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
import org.junit.jupiter.params.provider.MethodSource;

/** Compares each tile of Hopper's forward kernel, selected or not, with tensor operations in fp64. */
@Tag("gpu")
class HopperFlashForwardGpuTest {
    private static final int RACES = 200;
    private static final double L_BOUND = 4e-6; // L is about 7 here: 8 units in its last place

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

    private static Stream<Arguments> tiles() {
        return HopperForwardTile.all().stream()
                .flatMap(tile -> Stream.of(DType.BFLOAT16, DType.FLOAT16).map(type -> Arguments.of(tile, type)));
    }

    private Tensor random(DType type, double scale, long... shape) {
        return torch.randn(shape, device.options(DType.FLOAT32))
                .mul(new Scalar(scale))
                .to(type.scalarType());
    }

    private static Tensor wide(Tensor x) {
        return x.to(DType.FLOAT64.scalarType());
    }

    /** Fills memory with NaN, so that elements that are not written show. */
    private static void poison(Tensor q) {
        List<Tensor> poisoned = new ArrayList<>();
        poisoned.add(torch.full_like(q, new Scalar(Double.NaN)));
        poisoned.add(torch.full_like(q.select(-1, 0).to(DType.FLOAT32.scalarType()), new Scalar(Double.NaN)));
        poisoned.forEach(Tensor::close);
    }

    private static double relative(Tensor actual, Tensor exact) {
        return wide(actual).sub(exact).norm().div(exact.norm()).item().toDouble();
    }

    /** Returns the rounding error of P and O: each uniform in half a unit in the last place, plus a margin. */
    private static double rounding(DType type) {
        return type == DType.BFLOAT16 ? 0x1p-8 * 0.7 : 0x1p-11 * 0.7;
    }

    private static void check(HopperForwardTile tile, Tensor q, Tensor k, Tensor v, boolean causal) {
        poison(q);
        FlashVariant.AttentionOutput actual = HopperFlashForward.run(tile, q, k, v, causal);
        FlashVariant.AttentionOutput exact = TiledFlash.DEFAULT.forward(wide(q), wide(k), wide(v), causal);
        String what = tile + " on " + List.of(q.size(-2), k.size(-2), q.size(-1)) + (causal ? " causal" : "");
        double error = relative(actual.o(), exact.o());
        assertTrue(error <= rounding(DType.of(q)), what + ": O is off by " + error);
        double off = wide(actual.l()).sub(exact.l()).abs().max().item().toDouble();
        assertTrue(
                off <= L_BOUND * Math.max(1, exact.l().abs().max().item().toDouble() / 8),
                what + ": L is off by " + off);
    }

    @ParameterizedTest
    @MethodSource("tiles")
    void outputAndLogSumExpAreCloseToFp64(HopperForwardTile tile, DType type) {
        int[][] lengths = {{1, 1}, {1, 300}, {65, 63}, {200, 700}, {700, 200}, {1000, 1000}};
        for (int[] each : lengths) {
            for (long d : new long[] {tile.dimension(), tile.dimension() - 8}) {
                Tensor q = random(type, 1, 2, each[0], 3, d).transpose(1, 2);
                Tensor k = random(type, 1, 2, 3, each[1], d);
                Tensor v = random(type, 1, 2, 3, each[1], d);
                check(tile, q, k, v, true);
                check(tile, q, k, v, false);
            }
        }
    }

    /** Uses so many heads that each block processes several partial tiles. */
    @ParameterizedTest
    @MethodSource("tiles")
    void manyRoundsOfPartialTiles(HopperForwardTile tile, DType type) {
        int heads = 5 * Gpu.of(random(type, 1, 1)).multiprocessors();
        for (int rows : new int[] {1, 64, 200}) {
            Tensor q = random(type, 1, 1, heads, rows, tile.dimension());
            Tensor k = random(type, 1, 1, heads, rows, tile.dimension());
            Tensor v = random(type, 1, 1, heads, rows, tile.dimension());
            check(tile, q, k, v, true);
            check(tile, q, k, v, false);
        }
    }

    /** Uses so many heads that PyTorch does not split keys, which would make its errors smaller. */
    @ParameterizedTest
    @CsvSource({
        "16, 4096, 64, false, 1.01", // rounding errors are random
        "16, 4096, 64, true, 1",
        "16, 4096, 128, false, 1.01",
        "16, 4096, 128, true, 1",
        "3, 16384, 64, true, 1",
        "3, 16384, 128, true, 1"
    })
    void errorsOfLongSequencesAreNoLargerThanThoseOfPyTorchsFlashAttention(
            int heads, int context, int d, boolean causal, double most) {
        long[] shape = {1, heads, context, d};
        Tensor q = random(DType.BFLOAT16, 1, shape);
        Tensor k = random(DType.BFLOAT16, 1, shape);
        Tensor v = random(DType.BFLOAT16, 1, shape);
        Tensor exact =
                TiledFlash.DEFAULT.forward(wide(q), wide(k), wide(v), causal).o();
        double their = relative(new PyTorchFlash().apply(q, k, v, causal), exact);
        double our = relative(HopperFlashForward.run(q, k, v, causal).o(), exact);
        assertTrue(our <= most * their, "O is off by " + our + ", PyTorch's by " + their);
    }

    /** Uses scores in the thousands, so that the reference of the softmax is raised repeatedly. */
    @ParameterizedTest
    @MethodSource("tiles")
    void largeScoresAreCorrect(HopperForwardTile tile, DType type) {
        Tensor q = random(type, 20, 1, 2, 1500, tile.dimension());
        Tensor k = random(type, 20, 1, 2, 1500, tile.dimension());
        Tensor v = random(type, 1, 1, 2, 1500, tile.dimension());
        check(tile, q, k, v, true);
        check(tile, q, k, v, false);
    }

    @ParameterizedTest
    @MethodSource("tiles")
    void repeatsBitForBit(HopperForwardTile tile, DType type) {
        Tensor q = random(type, 3, 1, 5, 1300, tile.dimension());
        Tensor k = random(type, 3, 1, 5, 1300, tile.dimension());
        Tensor v = random(type, 1, 1, 5, 1300, tile.dimension());
        FlashVariant.AttentionOutput first = HopperFlashForward.run(tile, q, k, v, true);
        for (int run = 0; run < RACES; run++) {
            try (var inner = MemoryScope.open()) {
                FlashVariant.AttentionOutput again = HopperFlashForward.run(tile, q, k, v, true);
                assertTrue(again.o().equal(first.o()) && again.l().equal(first.l()), "run " + run);
            }
        }
    }

    @Test
    void theOutputHasTheLayoutOfTheQueries() {
        Tensor q = random(DType.BFLOAT16, 1, 2, 100, 3, 64).transpose(1, 2);
        FlashVariant.AttentionOutput output = new HopperFlash(false).forward(q, q, q, true);
        assertEquals(q.stride(1), output.o().stride(1));
        assertArrayEquals(new long[] {2, 3, 100}, Tensors.shape(output.l()));
        FlashVariant.AttentionOutput single =
                new HopperFlash(false).forward(q.select(1, 0), q.select(1, 0), q.select(1, 0), true);
        assertArrayEquals(new long[] {2, 100, 64}, Tensors.shape(single.o()));
        assertArrayEquals(new long[] {2, 100}, Tensors.shape(single.l()));
        assertTrue(single.o().equal(output.o().select(1, 0)));
    }

    @Test
    void inputsThatTmaCannotAccessAreCopied() {
        Tensor one = random(DType.BFLOAT16, 1, 1, 1, 64).expand(2, 90, 64); // a stride of 0
        Tensor shifted = random(DType.BFLOAT16, 1, 2, 90, 65).narrow(2, 1, 64); // rows at odd addresses
        Tensor dense = shifted.contiguous();
        FlashVariant.AttentionOutput expected = new HopperFlash(false).forward(dense, one.contiguous(), dense, true);
        FlashVariant.AttentionOutput actual = new HopperFlash(false).forward(shifted, one, shifted, true);
        assertTrue(actual.o().equal(expected.o()) && actual.l().equal(expected.l()));
    }

    @Test
    void unsupportedInputsAreNamed() {
        Tensor half = random(DType.BFLOAT16, 1, 2, 10, 64), single = random(DType.FLOAT32, 1, 2, 10, 64);
        Tensor odd = random(DType.BFLOAT16, 1, 2, 10, 20);
        var variant = new HopperFlash(false);
        assertMessage("v must be one of", () -> variant.forward(half, half, single, true));
        assertMessage("q must have a multiple of 8 columns", () -> variant.forward(odd, odd, odd, true));
        Tensor cpu = half.cpu();
        assertMessage("q must be on a Hopper GPU", () -> variant.forward(cpu, cpu, cpu, true));
        assertTrue(HopperFlash.supports(half) && !HopperFlash.supports(odd) && !HopperFlash.supports(single));
    }

    private static void assertMessage(String start, Runnable call) {
        String message = assertThrows(IllegalArgumentException.class, call::run).getMessage();
        assertTrue(message.startsWith(start), message);
    }
}
