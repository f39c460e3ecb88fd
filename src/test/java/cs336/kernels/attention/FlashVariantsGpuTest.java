package cs336.kernels.attention;

import static cs336.kernels.attention.FlashReference.relative;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.kernels.attention.TestedVariant.GemmPrecision;
import cs336.kernels.runtime.Fp32Emulation;
import cs336.kernels.runtime.TensorChecks;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests of the variants that run on a GPU. */
@Tag("gpu")
class FlashVariantsGpuTest extends FlashVariantContract {
    private static final TestedVariant FIRST =
            new TestedVariant("flash-first", new FirstFlash(), TensorChecks.KERNEL_TYPES, GemmPrecision.FP32, true);
    private static final List<TestedVariant> VARIANTS = List.of(
            new TestedVariant(
                    "flash-tiled", TiledFlash.DEFAULT, TensorChecks.KERNEL_TYPES, GemmPrecision.FP32, true), //
            FIRST,
            new TestedVariant("flash", new HopperFlash(false), TestedVariant.HALVES, GemmPrecision.FP32, false),
            new TestedVariant(
                    "flash-deterministic", new HopperFlash(true), TestedVariant.HALVES, GemmPrecision.FP32, true),
            new TestedVariant(
                    "flash-tf32",
                    new MmaFlash(Fp32Emulation.TF32),
                    TensorChecks.KERNEL_TYPES,
                    GemmPrecision.TF32,
                    true),
            new TestedVariant(
                    "flash-3xtf32",
                    new MmaFlash(Fp32Emulation.TF32_X3),
                    TestedVariant.FP32,
                    GemmPrecision.TF32_THREE_TIMES,
                    true));

    FlashVariantsGpuTest() {
        super(Device.cuda(0), VARIANTS);
    }

    @Override
    List<Shape> shapes() {
        int[][] lengths = {
            {1, 1},
            {1, 7},
            {7, 1},
            {1, 2048},
            {2048, 1},
            {63, 64},
            {64, 63},
            {64, 64},
            {65, 65},
            {127, 129},
            {128, 128},
            {129, 127},
            {191, 193},
            {192, 192},
            {193, 191},
            {300, 1000},
            {1000, 300},
            {1000, 1000},
            {1024, 1024},
            {1024, 2048},
            {2048, 1024},
            {2048, 2048}
        };
        List<Shape> shapes = new ArrayList<>();
        for (int[] each : lengths) {
            shapes.add(Shape.of(each[0], each[1]));
        }
        return shapes;
    }

    @Override
    Shape large() {
        return new Shape(2, 8, 1000, 1030);
    }

    @Override
    int[] widths() {
        return new int[] {8, 16, 32, 64, 80, 128};
    }

    @Test
    void fp32IsRoundedToTf32OnlyWhereThatIsAllowed() {
        long[] shape = {1, 300, 64};
        FlashInputs x = FlashInputs.random(Device.cuda(0), DType.FLOAT32, shape, shape);
        Tensor exact = FlashReference.of(x, true).exact().o();
        Torch.allowTf32(true);
        try {
            Tensor rounded = FlashAttention.apply(x.q(), x.k(), x.v(), true);
            assertTrue(relative(exact, rounded) > 1e-4, "with TF32 the error is " + relative(exact, rounded));
            assertTrue(relative(exact, rounded) < 1e-3, "with TF32 the error is " + relative(exact, rounded));
        } finally {
            Torch.allowTf32(false);
        }
        Tensor accurate = FlashAttention.apply(x.q(), x.k(), x.v(), true);
        assertTrue(relative(exact, accurate) < 1e-6, "in fp32 the error is " + relative(exact, accurate));
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 3, 20, 100, 127})
    void firstFlashSupportsAnyWidth(int d) {
        for (DType type : TensorChecks.KERNEL_TYPES) {
            long[] keys = {2, 90, d};
            FlashInputs x = FlashInputs.random(Device.cuda(0), type, new long[] {2, 70, d}, keys);
            FlashReference.of(x, true)
                    .assertElementsClose(FIRST, type, FlashResult.of(FIRST.variant(), x, true), 0, "d " + d);
        }
    }

    /** Compares errors against the same reference. They differ by a few percent by chance. */
    @ParameterizedTest
    @MethodSource("variantsAndTypes")
    void errorsAreNoLargerThanThoseOfPyTorchsFlashAttention(TestedVariant tested, DType type) {
        if (!TestedVariant.HALVES.contains(type)) {
            return; // PyTorch's kernel supports no others
        }
        for (int d : new int[] {16, 32, 64, 128}) {
            for (boolean causal : new boolean[] {false, true}) {
                try (var each = MemoryScope.open()) {
                    long[] shape = {2, 4, 1024, d};
                    FlashInputs x = FlashInputs.random(Device.cuda(0), type, shape, shape);
                    FlashInputs leaves = x.each(tensor -> tensor.detach().set_requires_grad(true));
                    Tensor o = new PyTorchFlash().apply(leaves.q(), leaves.k(), leaves.v(), causal);
                    Backward.of(o).with(x.dO()).run();
                    FlashResult exact = FlashReference.of(x, causal).exact();
                    FlashResult ours = FlashResult.of(tested.variant(), x, causal);
                    String what = tested + " in " + type + ", d " + d + (causal ? ", causal: " : ": ");
                    assertNoWorse(what + "O", exact.o(), o, ours.o());
                    assertNoWorse(what + "dQ", exact.dQ(), leaves.q().grad(), ours.dQ());
                    assertNoWorse(what + "dK", exact.dK(), leaves.k().grad(), ours.dK());
                    assertNoWorse(what + "dV", exact.dV(), leaves.v().grad(), ours.dV());
                }
            }
        }
    }

    private static void assertNoWorse(String what, Tensor exact, Tensor theirs, Tensor ours) {
        double their = relative(exact, theirs);
        double our = relative(exact, ours);
        assertTrue(our <= 1.05 * their, what + " is off by " + our + ", PyTorch's by " + their);
    }

    @ParameterizedTest
    @MethodSource("variants")
    void keysOnAnotherDeviceAreRejected(TestedVariant tested) {
        DType type = tested.types().iterator().next();
        long[] shape = {1, 9, 16};
        FlashInputs gpu = FlashInputs.random(Device.cuda(0), type, shape, shape);
        FlashInputs cpu = FlashInputs.random(Device.cpu(), type, shape, shape);
        String message = assertThrows(
                        IllegalArgumentException.class,
                        () -> FlashAttention.apply(gpu.q(), cpu.k(), gpu.v(), false, tested.variant()))
                .getMessage();
        assertTrue(message.contains("q, k and v must be on the same device"), message);
    }
}
