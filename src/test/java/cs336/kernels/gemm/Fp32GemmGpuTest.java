package cs336.kernels.gemm;

import static cs336.kernels.gemm.GemmTensors.GPU;
import static cs336.kernels.gemm.GemmTensors.error;
import static cs336.kernels.gemm.GemmTensors.fillWithNaN;
import static cs336.kernels.gemm.GemmTensors.random;
import static cs336.kernels.gemm.GemmTensors.rounded;
import static cs336.kernels.gemm.GemmTensors.wide;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import cs336.kernels.runtime.Fp32Emulation;
import cs336.kernels.runtime.Gpu;
import cs336.torch.CudaGraph;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.List;
import java.util.Random;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Compares with fp64: three products with the operands, one also with operands that are rounded to TF32. */
@Tag("gpu")
class Fp32GemmGpuTest extends ScopedTest {
    private static final double LARGEST_ERROR = 3e-6; // of an element, over the largest element
    private static final double RESULT_ERROR = 2.4e-7; // two roundings of a result in fp32
    private static final double TRUNCATION_ERROR =
            3e-9; // of tensor cores, which truncate sums, per element of the depth
    private static final double ROUNDING_ERROR = 3e-4; // of operands that are rounded to TF32, norm over norm
    private static final int DEVIATIONS = 8; // standard deviations of a random error's norm: 1 / sqrt(elements) each
    private static final int RUNS = 60;
    private static final Fp32Gemm ONE = new Fp32Gemm(Fp32Emulation.TF32);
    private static final Fp32Gemm THREE = new Fp32Gemm(Fp32Emulation.TF32_X3);

    @BeforeEach
    void drawOtherNumbers() {
        assumeTrue(Gpu.of(GPU).runsHopperKernels(), "needs a Hopper GPU");
        Torch.seed(System.nanoTime());
        Torch.allowTf32(false);
    }

    private static Tensor matrix(boolean byRows, long rows, long columns) {
        return byRows ? random(rows, columns) : random(columns, rows).t();
    }

    private static Tensor multiply(Fp32Gemm gemm, Tensor a, Tensor b) {
        fillWithNaN(DType.FLOAT32, a.size(0), b.size(1));
        return gemm.compute(a, b)[0];
    }

    private static void requireExact(Fp32Gemm gemm, Tensor a, Tensor b) {
        requireExact(gemm, multiply(gemm, a, b), a, b);
    }

    private static void requireExact(Fp32Gemm gemm, Tensor product, Tensor a, Tensor b) {
        Tensor exact = wide(a).mm(wide(b));
        Tensor error = wide(product).sub(exact);
        double norm = error.norm().item_double() / exact.norm().item_double();
        double largest = error.abs().max().item_double() / exact.abs().max().item_double();
        String text = a.size(0) + " × " + b.size(1) + " × " + a.size(1) + ", A "
                + (a.stride(1) == 1 ? "by rows" : "by columns") + ", B " + (b.stride(1) == 1 ? "by rows" : "by columns")
                + ": error " + norm + ", largest " + largest;
        if (gemm == THREE) {
            assertTrue(norm < errorOfThree(a.size(1)) && largest < LARGEST_ERROR, text);
        } else {
            Tensor ofRounded = rounded(a).mm(rounded(b));
            double sum = error(wide(product), ofRounded);
            assertTrue(sum < RESULT_ERROR + TRUNCATION_ERROR * a.size(1), text + ", of sums " + sum);
            assertTrue(norm < ROUNDING_ERROR * (1 + DEVIATIONS / Math.sqrt(exact.numel())), text);
        }
    }

    /**
     * Returns a bound of the error's norm, over the norm of the product: twice what was measured for large results. Per
     * stage, one sum is rounded in fp32.
     */
    private static double errorOfThree(long depth) {
        return 2 * Math.hypot(1.2e-7, 3.4e-9 * Math.sqrt(depth));
    }

    @ParameterizedTest
    @CsvSource({
        "4, 4, 8",
        "128, 128, 32",
        "132, 260, 40",
        "512, 768, 768",
        "2048, 1600, 1600",
        "512, 1600, 6400",
        "10000, 768, 512",
        "12, 8, 20000",
        "100, 10000, 768",
        "640, 2560, 10240"
    })
    void productsEqualThoseInDoublePrecisionInAllLayouts(long rows, long columns, long depth) {
        for (boolean aByRows : new boolean[] {false, true}) {
            for (boolean bByRows : new boolean[] {false, true}) {
                try (var scope = MemoryScope.open()) {
                    Tensor a = matrix(aByRows, rows, depth);
                    Tensor b = matrix(bByRows, depth, columns);
                    requireExact(THREE, a, b);
                    boolean areBothAlong = aByRows && !bByRows;
                    if (!areBothAlong) {
                        requireExact(ONE, a, b);
                    }
                }
            }
        }
    }

    /** The number of lines of an operand may be any, unless it must be copied. */
    @Test
    void rowsOfAAndTheDepthNeedNotBeMultiplesOfFour() {
        for (long rows : new long[] {1, 7, 131}) {
            requireExact(THREE, random(rows, 64), random(64, 132));
            requireExact(ONE, random(rows, 64), random(64, 132));
            requireExact(THREE, random(rows, 64), random(132, 64).t());
        }
    }

    @Test
    void productsOfRandomSizesEqualThoseInDoublePrecisionWithAllTiles() {
        var draw = new Random();
        for (Fp32Gemm gemm : new Fp32Gemm[] {ONE, THREE}) {
            for (int i = 0; i < RUNS; i++) {
                try (var scope = MemoryScope.open()) {
                    long rows = 4L * (1 + draw.nextInt(600));
                    long columns = 4L * (1 + draw.nextInt(600));
                    long depth = 8L * (1 + draw.nextInt(250));
                    boolean aByRows = draw.nextBoolean();
                    boolean bByRows = draw.nextBoolean() || gemm == ONE && aByRows;
                    Tensor a = matrix(aByRows, rows, depth);
                    Tensor b = matrix(bByRows, depth, columns);
                    List<Integer> tiles = gemm.tileColumns();
                    fillWithNaN(DType.FLOAT32, a.size(0), b.size(1));
                    requireExact(gemm, gemm.onGpu(tiles.get(i % tiles.size()), a, b), a, b);
                }
            }
        }
    }

    @Test
    void gapsBetweenLinesAndUnalignedAddressesAreAllowed() {
        requireExact(
                THREE,
                random(200, 512).narrow(1, 64, 256),
                random(300, 512).narrow(1, 4, 256).t());
        Tensor unaligned = GemmTensors.unaligned(256, 256);
        requireExact(THREE, unaligned, unaligned.t());
        for (Fp32Gemm gemm : new Fp32Gemm[] {ONE, THREE}) {
            requireExact(
                    gemm,
                    random(512, 300).narrow(1, 8, 200).t(),
                    random(512, 600).narrow(1, 12, 400));
            requireExact(gemm, unaligned, unaligned);
            requireExact(gemm, unaligned.t(), unaligned);
        }
    }

    @Test
    void layoutsThatTheKernelDoesNotSupportAreRefused() {
        Tensor a = random(64, 64);
        assertThrows(IllegalArgumentException.class, () -> ONE.compute(a, a.t()), "both along the sum");
        Tensor b = random(60, 64);
        assertThrows(IllegalArgumentException.class, () -> THREE.compute(b.t(), b), "depth 60");
    }

    /** Rows of A of magnitudes that TF32_X3 supports, with a factor in B that keeps the products finite and normal. */
    @ParameterizedTest
    @CsvSource({"-32, 0, 1e4", "-14, 20, 1e-15", "0, 37, 1e-30"})
    void numbersOfAllMagnitudesKeepTheirAccuracy(double smallest, double largest, double factor) {
        Tensor exponents =
                torch.linspace(new Scalar(smallest), new Scalar(largest), 300).view(300, 1);
        Tensor scale = torch.pow(new Scalar(10.0), exponents).to(GPU.toTorch(), DType.FLOAT32.scalarType());
        Tensor a = random(300, 400).mul(scale);
        Tensor b = random(400, 200).mul(new Scalar(factor));
        Tensor exact = wide(a).mm(wide(b));
        Tensor error = wide(multiply(THREE, a, b)).sub(exact);
        double[] relative = Tensors.toDoubles(ofRows(error).div(ofRows(exact)));
        for (int row = 0; row < relative.length; row++) {
            assertTrue(relative[row] < 1e-6, "row " + row + ": error " + relative[row]);
        }
    }

    /** Returns the norm of each row. */
    private static Tensor ofRows(Tensor x) {
        return x.mul(x).sum(1).sqrt();
    }

    @Test
    void resultsAreReproducibleWhateverRanBefore() {
        Tensor g = random(512, 1600);
        Tensor x = random(512, 6400);
        for (Fp32Gemm gemm : new Fp32Gemm[] {ONE, THREE}) {
            Tensor first = multiply(gemm, g.t(), x);
            for (int i = 0; i < RUNS; i++) {
                try (var scope = MemoryScope.open()) {
                    multiply(gemm, random(4L * (i + 1), 640), random(640, 1284));
                    assertTrue(first.equal(multiply(gemm, g.t(), x)), "run " + i);
                }
            }
        }
    }

    @Test
    void replaysOfAGraphEqualDirectCalls() {
        Tensor a = random(512, 1600);
        Tensor b = random(1600, 1600);
        Tensor c = torch.empty_like(b);
        for (Fp32Gemm gemm : new Fp32Gemm[] {ONE, THREE}) {
            Runnable work = () -> {
                try (var scope = MemoryScope.open()) {
                    c.copy_(multiply(gemm, a.t(), multiply(gemm, a, b)));
                }
            };
            try (var graph = CudaGraph.on(GPU)) {
                graph.warmUp(work);
                graph.record(work);
                for (int i = 0; i < RUNS; i++) {
                    a.normal_();
                    graph.replay();
                    try (var scope = MemoryScope.open()) {
                        assertTrue(c.equal(multiply(gemm, a.t(), multiply(gemm, a, b))), "replay " + i);
                    }
                }
            }
        }
    }

    @Test
    void anInfiniteOperandGivesNoFiniteNumber() {
        Tensor a = random(256, 256);
        a.select(0, 3).narrow(0, 7, 1).fill_(new Scalar(Double.POSITIVE_INFINITY));
        a.select(0, 5).narrow(0, 9, 1).fill_(new Scalar(Double.NaN));
        for (Fp32Gemm gemm : new Fp32Gemm[] {ONE, THREE}) {
            for (Tensor ofColumns : new Tensor[] {a, a.t().contiguous().t()}) {
                Tensor finite = torch.isfinite(multiply(gemm, ofColumns, random(256, 256)));
                for (long row = 0; row < a.size(0); row++) {
                    Tensor ofRow = finite.select(0, row);
                    assertEquals(row == 3 || row == 5 ? 0 : 256, ofRow.sum().item_long(), "row " + row);
                }
            }
        }
    }
}
