package cs336.kernels.norms;

import static cs336.kernels.Closeness.assertClose;
import static cs336.kernels.Closeness.largest;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.kernels.runtime.KernelLog;
import cs336.kernels.runtime.Route;
import cs336.kernels.runtime.RowLayout;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.Arrays;
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
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The kernels on a GPU, compared with Java doubles. */
@Tag("gpu")
class RmsNormKernelsGpuTest {
    private static final double EPS = 1e-5;

    private MemoryScope scope;
    private Device device;

    @BeforeEach
    void open() {
        scope = MemoryScope.open();
        device = Device.cuda(0);
        Torch.seed(1);
    }

    @AfterEach
    void close() {
        device.synchronize();
        scope.close();
    }

    private static Stream<Arguments> widthsAndTypes() {
        List<Arguments> all = new ArrayList<>();
        for (int width : new int[] {1, 7, 32, 50, 1000, 1024, 2048, 4096, 4097, 8192, 16384, 65536}) {
            for (DType type : List.of(DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16)) {
                all.add(Arguments.of(width, type, type));
                if (type != DType.FLOAT32) {
                    all.add(Arguments.of(width, type, DType.FLOAT32));
                }
            }
        }
        return all.stream();
    }

    /** Returns a number of rows so that each block processes several, and not all blocks equally many. */
    private static int rowsFor(int width) {
        return width <= 1024 ? 7001 : width <= 8192 ? 1201 : 301;
    }

    private Tensor random(double scale, DType type, long... shape) {
        return torch.randn(shape, device.options(DType.FLOAT32))
                .mul(new Scalar(scale))
                .to(type.scalarType());
    }

    /** Returns the relative rounding error of the dtype plus a few of fp32. */
    private static double rounding(DType type) {
        return switch (type) {
                    case BFLOAT16 -> Math.pow(2, -8);
                    case FLOAT16 -> Math.pow(2, -11);
                    default -> 0;
                }
                + 4e-6;
    }

    /**
     * Fills memory that the next allocations reuse with NaN, so that elements that a kernel does not write are noticed.
     */
    private void poison(long... elements) {
        List<Tensor> poisoned = new ArrayList<>();
        for (long n : elements) {
            poisoned.add(torch.full(new long[] {n}, new Scalar(Double.NaN), device.options(DType.FLOAT32)));
        }
        poisoned.forEach(Tensor::close);
    }

    private static void check(Tensor x, Tensor weight, Tensor dy, Tensor y, Tensor dx, Tensor dw) {
        var expected = RmsNormReference.of(Tensors.toDoubles(x), Tensors.toDoubles(weight), Tensors.toDoubles(dy), EPS);
        DType type = DType.of(x);
        double smallestOfFp16 = type == DType.FLOAT16 ? Math.pow(2, -24) : 0;
        assertClose("y", expected.y(), Tensors.toDoubles(y), rounding(type), smallestOfFp16);
        assertClose(
                "dx", expected.dx(), Tensors.toDoubles(dx), rounding(type), 2e-6 * expected.dxTerm() + smallestOfFp16);
        assertClose(
                "dw",
                expected.dw(),
                Tensors.toDoubles(dw),
                rounding(DType.of(weight)),
                2e-6 * largest(expected.dw()) + smallestOfFp16);
    }

    @ParameterizedTest
    @MethodSource("widthsAndTypes")
    void valueAndGradientsEqualDoublesAndEveryElementIsWritten(int width, DType type, DType weightType) {
        int rows = rowsFor(width);
        Tensor x = random(2, type, rows, width), dy = random(1, type, rows, width);
        Tensor weight = random(1, weightType, width);
        Tensor y = torch.full_like(x, new Scalar(Double.NaN)), dx = torch.full_like(x, new Scalar(Double.NaN));
        RowLayout layout = RowLayout.of(weight, x, y, dx, dy);
        new RmsNormKernels(layout, RmsNormTile.forward(layout)).launchForward(x, weight, y, EPS);
        for (int blocks = 66; blocks <= 2112; blocks *= 2) {
            poison((long) blocks * width);
        }
        Tensor dw = new RmsNormKernels(layout, RmsNormTile.backward(layout)).launchBackward(x, weight, dy, dx, EPS)[1];
        check(x, weight, dy, y, dx, dw);
        y.fill_(new Scalar(Double.NaN));
        new RmsNormKernels(layout, RmsNormTile.streaming(layout)).launchForward(x, weight, y, EPS);
        check(x, weight, dy, y, dx, dw);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 5, 131, 400})
    void fewRowsWork(int rows) {
        for (int width : new int[] {50, 1024, 8192, 16384}) {
            Tensor x = random(1, DType.FLOAT32, rows, width), dy = random(1, DType.FLOAT32, rows, width);
            Tensor weight = random(1, DType.FLOAT32, width);
            x.set_requires_grad(true);
            weight.set_requires_grad(true);
            poison((long) rows * width, (long) rows * width, width);
            Tensor y = FusedRmsNorm.apply(x, weight, EPS);
            Backward.of(y).with(dy).run();
            check(x, weight, dy, y, x.grad(), weight.grad());
        }
    }

    @ParameterizedTest
    @ValueSource(doubles = {1e-4, 1e-2, 1, 1e2, 1e4})
    void courseShapeIsMoreAccurateThanRequiredAtEveryScale(double scale) {
        Tensor x = random(scale, DType.FLOAT32, 10, 20, 50).set_requires_grad(true);
        Tensor weight = random(1, DType.FLOAT32, 50).set_requires_grad(true);
        Tensor dy = random(1, DType.FLOAT32, 10, 20, 50);
        try (var log = KernelLog.open()) {
            Tensor y = FusedRmsNorm.apply(x, weight, EPS);
            Backward.of(y).with(dy).run();
            assertEquals(
                    List.of("rmsnorm_forward", "rmsnorm_backward", "column_sum"),
                    log.entries().stream().map(KernelLog.KernelLogEntry::name).toList());
            assertArrayEquals(new long[] {10, 20, 50}, Tensors.shape(y));
            check(x, weight, dy, y, x.grad(), weight.grad());
        }
    }

    @Test
    void tilesOfTheSearchComputeCorrectResults() {
        for (DType type : List.of(DType.FLOAT32, DType.BFLOAT16)) {
            for (int width : new int[] {1024, 8192}) {
                Tensor x = random(1, type, 1501, width), dy = random(1, type, 1501, width);
                Tensor weight = random(1, type, width);
                Tensor y = torch.empty_like(x), dx = torch.empty_like(x);
                RowLayout layout = RowLayout.of(weight, x, dy);
                for (boolean forward : new boolean[] {true, false}) {
                    List<RmsNormTile> tiles = RmsNormTileSearch.candidates(layout, forward);
                    for (int i = 0; i < tiles.size(); i += 7) {
                        RmsNormTile tile = tiles.get(i);
                        y.fill_(new Scalar(Double.NaN));
                        dx.fill_(new Scalar(Double.NaN));
                        var kernels = new RmsNormKernels(layout, tile);
                        if (!kernels.fits()) {
                            continue;
                        }
                        Tensor reference = RmsNormFunction.value(x, weight, EPS);
                        if (forward) {
                            kernels.launchForward(x, weight, y, EPS);
                            assertTrue(y.allclose(reference, 1e-2, 1e-5, false), tile.toString());
                        } else {
                            Tensor dw = kernels.launchBackward(x, weight, dy, dx, EPS)[1];
                            Tensor[] expected = RmsNormFunction.gradients(x, weight, dy, EPS, true, true);
                            assertTrue(dx.allclose(expected[0], 1e-2, 1e-5, false), tile + " dx");
                            assertTrue(dw.allclose(expected[1], 1e-2, 2e-2, false), tile + " dw");
                        }
                    }
                }
            }
        }
    }

    @Test
    void inputsWithAnyStridesAndAlignmentWork() {
        for (DType type : List.of(DType.FLOAT32, DType.BFLOAT16)) {
            Tensor columns = random(1, type, 64, 300).t(); // [300, 64], strided
            Tensor weight = random(1, type, 64);
            Tensor dy = random(1, type, 300, 1).expand(300, 64); // stride 0
            Tensor leaf = columns.detach().set_requires_grad(true);
            assertFalse(leaf.is_contiguous());
            weight.set_requires_grad(true);
            Tensor y = FusedRmsNorm.apply(leaf, weight, EPS);
            Backward.of(y).with(dy).run();
            check(leaf, weight, dy, y, leaf.grad(), weight.grad());

            Tensor shifted =
                    random(1, type, 300 * 64 + 1).narrow(0, 1, 300 * 64).view(300, 64); // not aligned to 16 bytes
            Tensor shiftedWeight = random(1, type, 65).narrow(0, 1, 64);
            Tensor other = FusedRmsNorm.apply(shifted, shiftedWeight, EPS);
            double[] expected = RmsNormReference.of(
                            Tensors.toDoubles(shifted), Tensors.toDoubles(shiftedWeight), Tensors.toDoubles(dy), EPS)
                    .y();
            assertClose("y", expected, Tensors.toDoubles(other), rounding(type), 0);
        }
    }

    @Test
    void gradientOfTheWeightIsBitwiseReproducible() {
        for (int width : new int[] {50, 1024, 8192, 16384}) {
            Tensor x = random(1, DType.FLOAT32, 5001, width).set_requires_grad(true);
            Tensor weight = random(1, DType.FLOAT32, width).set_requires_grad(true);
            Tensor dy = random(1, DType.FLOAT32, 5001, width);
            double[] first = null;
            for (int run = 0; run < 20; run++) {
                try (var inner = MemoryScope.open()) {
                    weight.mutable_grad().put(new Tensor());
                    x.mutable_grad().put(new Tensor());
                    Backward.of(FusedRmsNorm.apply(x, weight, EPS)).with(dy).run();
                    double[] dw = Tensors.toDoubles(weight.grad());
                    if (first == null) {
                        first = dw;
                    }
                    assertTrue(Arrays.equals(first, dw), "width " + width + ", run " + run);
                }
            }
        }
    }

    @Test
    void emptyInputsFp64AndSecondDerivativesUseTensorOperations() {
        Tensor none = random(1, DType.FLOAT32, 0, 8).set_requires_grad(true);
        Tensor weight = random(1, DType.FLOAT32, 8).set_requires_grad(true);
        FusedRmsNorm.apply(none, weight, EPS).sum().backward();
        assertArrayEquals(new double[8], Tensors.toDoubles(weight.grad()));

        Tensor wide = random(1, DType.FLOAT64, 3, 8);
        assertEquals(Route.TENSOR_OPERATIONS, FusedRmsNorm.route(wide));
        assertEquals(DType.FLOAT64, DType.of(FusedRmsNorm.apply(wide, weight, EPS)));

        Tensor x = random(1, DType.FLOAT32, 3, 8).set_requires_grad(true);
        try (var log = KernelLog.open()) {
            Tensor loss = FusedRmsNorm.apply(x, weight, EPS).square().sum();
            Backward.of(loss).createGraph().gradients(x);
            assertEquals(List.of(Route.KERNEL, Route.TENSOR_OPERATIONS), log.routes());
        }
    }

    @Test
    void weightOnAnotherDeviceIsNamed() {
        Tensor x = random(1, DType.FLOAT32, 3, 8);
        String said = assertThrows(IllegalArgumentException.class, () -> FusedRmsNorm.apply(x, torch.ones(8), EPS))
                .getMessage();
        assertEquals("weight is on cpu, but x is on cuda:0", said);
    }

    @Test
    void backwardPassAllocatesNoCopyOfTheGradient() {
        Tensor x = random(1, DType.FLOAT32, 1 << 12, 1 << 12).set_requires_grad(true); // 64 MiB
        Tensor weight = random(1, DType.FLOAT32, 1 << 12).set_requires_grad(true);
        Tensor y = FusedRmsNorm.apply(x, weight, EPS);
        Tensor dy = random(1, DType.FLOAT32, 1 << 12, 1 << 12);
        cs336.torch.MemoryStats.resetPeak(device);
        long before = cs336.torch.MemoryStats.current(device);
        Backward.of(y).with(dy).run();
        long more = cs336.torch.MemoryStats.peak(device) - before;
        assertTrue(more < 2L * (64 << 20), "the backward pass took " + more + " bytes at its peak");
    }
}
