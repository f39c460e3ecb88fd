package cs336.kernels.attention;

import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.PlainAttention;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import java.util.EnumSet;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests of the variants that run on the CPU, and of the reference itself. */
class FlashVariantsCpuTest extends FlashVariantContract {
    private static final List<TestedVariant> VARIANTS = List.of(new TestedVariant(
            "flash-tiled",
            new TiledFlash(48, 32),
            EnumSet.of(DType.FLOAT32, DType.BFLOAT16),
            TestedVariant.GemmPrecision.FP32,
            true));

    FlashVariantsCpuTest() {
        super(Device.cpu(), VARIANTS);
    }

    @Override
    List<Shape> shapes() {
        return List.of(
                new Shape(2, 3, 1, 1),
                new Shape(2, 1, 1, 7),
                new Shape(2, 1, 7, 1),
                new Shape(1, 2, 64, 63),
                new Shape(1, 2, 63, 65),
                new Shape(1, 1, 129, 193),
                new Shape(1, 1, 300, 127));
    }

    @Override
    Shape large() {
        return new Shape(2, 2, 150, 170);
    }

    @Override
    int[] widths() {
        return new int[] {8, 64, 80};
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void theReferenceIsPlainAttentionWithGradientsByAutograd(boolean causal) {
        FlashInputs x =
                FlashInputs.random(Device.cpu(), DType.FLOAT64, new long[] {2, 3, 20, 8}, new long[] {2, 3, 30, 8});
        FlashInputs leaves = x.each(tensor -> tensor.detach().set_requires_grad(true));
        Tensor o = new PlainAttention().apply(leaves.q(), leaves.k(), leaves.v(), causal);
        Backward.of(o).with(x.dO()).run();
        FlashResult exact = FlashReference.of(x, causal).exact();
        assertTrue(exact.o().allclose(o, 1e-13, 1e-14, false), "o");
        assertTrue(exact.dQ().allclose(leaves.q().grad(), 1e-12, 1e-14, false), "dQ");
        assertTrue(exact.dK().allclose(leaves.k().grad(), 1e-12, 1e-14, false), "dK");
        assertTrue(exact.dV().allclose(leaves.v().grad(), 1e-12, 1e-14, false), "dV");
    }
}
