package cs336.kernels.gemm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.CudaGraph;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.Random;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Compares with fp64. */
@Tag("gpu")
class Tf32x3GemmGpuTest extends ScopedTest {
    private static final Device GPU = Device.cuda(0);
    private static final double ERROR = 5e-7; // norm of the error over the norm of the product
    private static final double LARGEST_ERROR = 3e-6; // of an element, over the largest element
    private static final int RUNS = 50;

    @BeforeEach
    void drawOtherNumbers() {
        Torch.seed(System.nanoTime());
        Torch.allowTf32(false);
    }

    private static Tensor random(long rows, long columns) {
        return torch.randn(new long[] {rows, columns}, GPU.options(DType.FLOAT32));
    }

    private static Tensor matrix(boolean byRows, long rows, long columns) {
        return byRows ? random(rows, columns) : random(columns, rows).t();
    }

    private static Tensor wide(Tensor x) {
        return x.to(DType.FLOAT64.scalarType());
    }

    /** Multiplies into memory that was full of NaN, so that elements that are not written show. */
    private static Tensor multiply(Tensor a, Tensor b) {
        torch.full(new long[] {a.size(0), b.size(1)}, new Scalar(Double.NaN), GPU.options(DType.FLOAT32))
                .close();
        return new Tf32x3Gemm().compute(a, b)[0];
    }

    private static void requireExact(Tensor a, Tensor b) {
        Tensor exact = wide(a).mm(wide(b));
        Tensor error = wide(multiply(a, b)).sub(exact);
        double norm = error.norm().item_double() / exact.norm().item_double();
        double largest = error.abs().max().item_double() / exact.abs().max().item_double();
        String text = a.size(0) + " × " + a.size(1) + " × " + b.size(1) + ": error " + norm + ", largest " + largest;
        assertTrue(norm < ERROR && largest < LARGEST_ERROR, text);
    }

    @ParameterizedTest
    @CsvSource({
        "4, 4, 4",
        "128, 128, 32",
        "132, 260, 36",
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
                    requireExact(matrix(aByRows, rows, depth), matrix(bByRows, depth, columns));
                }
            }
        }
    }

    /** The number of lines of an operand may be any. */
    @Test
    void rowsOfAAndTheDepthNeedNotBeMultiplesOfFour() {
        for (long rows : new long[] {1, 7, 131}) {
            requireExact(random(rows, 64), random(64, 132));
            requireExact(random(rows, 64), random(132, 64).t());
        }
        for (long depth : new long[] {1, 37, 513}) {
            requireExact(random(depth, 132).t(), random(depth, 260));
        }
    }

    @Test
    void productsOfRandomSizesEqualThoseInDoublePrecision() {
        var draw = new Random();
        for (int i = 0; i < RUNS; i++) {
            try (var scope = MemoryScope.open()) {
                long rows = 4L * (1 + draw.nextInt(300));
                long columns = 4L * (1 + draw.nextInt(300));
                long depth = 4L * (1 + draw.nextInt(500));
                requireExact(matrix(draw.nextBoolean(), rows, depth), matrix(draw.nextBoolean(), depth, columns));
            }
        }
    }

    @Test
    void gapsBetweenLinesAndUnalignedAddressesAreAllowed() {
        requireExact(
                random(200, 512).narrow(1, 64, 256),
                random(300, 512).narrow(1, 4, 256).t());
        requireExact(random(512, 300).narrow(1, 8, 200).t(), random(512, 600).narrow(1, 12, 400));
        Tensor memory = torch.randn(new long[] {1 + 256 * 256}, GPU.options(DType.FLOAT32));
        Tensor unaligned = memory.narrow(0, 1, 256 * 256).view(256, 256);
        requireExact(unaligned, unaligned.t());
    }

    @Test
    void numbersOfAllMagnitudesKeepTheirAccuracy() {
        Tensor exponents =
                torch.linspace(new Scalar(-14.0), new Scalar(20.0), 300).view(300, 1);
        Tensor scale = torch.pow(new Scalar(10.0), exponents).to(GPU.toTorch(), DType.FLOAT32.scalarType());
        Tensor a = random(300, 400).mul(scale);
        Tensor b = random(400, 200).mul(new Scalar(1e-15));
        Tensor exact = wide(a).mm(wide(b));
        Tensor error = wide(multiply(a, b)).sub(exact);
        double[] relative = Tensors.toDoubles(ofRows(error).div(ofRows(exact)));
        for (int row = 0; row < relative.length; row++) {
            assertTrue(relative[row] < 2 * ERROR, "row " + row + ": error " + relative[row]);
        }
    }

    /** Returns the norm of each row. */
    private static Tensor ofRows(Tensor x) {
        return x.mul(x).sum(1).sqrt();
    }

    @Test
    void resultsAreReproducibleWhateverRanBefore() {
        Tensor a = random(512, 1600);
        Tensor b = random(1600, 1600).t();
        Tensor first = multiply(a, b);
        for (int i = 0; i < RUNS; i++) {
            try (var scope = MemoryScope.open()) {
                multiply(random(4L * (i + 1), 640), random(640, 1284));
                assertTrue(first.equal(multiply(a, b)), "run " + i);
            }
        }
    }

    @Test
    void replaysOfAGraphEqualDirectCalls() {
        Tensor a = random(512, 1600);
        Tensor b = random(1600, 1600).t();
        Tensor c = torch.empty_like(a);
        Runnable work = () -> {
            try (var scope = MemoryScope.open()) {
                c.copy_(multiply(multiply(a, b), b));
            }
        };
        try (var graph = CudaGraph.on(GPU)) {
            graph.warmUp(work);
            graph.record(work);
            for (int i = 0; i < RUNS; i++) {
                a.normal_();
                graph.replay();
                assertTrue(c.equal(multiply(multiply(a, b), b)), "replay " + i);
            }
        }
    }

    @Test
    void anInfiniteOperandGivesNoFiniteNumber() {
        Tensor a = random(256, 256);
        a.select(0, 3).narrow(0, 7, 1).fill_(new Scalar(Double.POSITIVE_INFINITY));
        a.select(0, 5).narrow(0, 9, 1).fill_(new Scalar(Double.NaN));
        Tensor finite = torch.isfinite(multiply(a, random(256, 256)));
        for (long row = 0; row < a.size(0); row++) {
            Tensor ofRow = finite.select(0, row);
            assertEquals(row == 3 || row == 5 ? 0 : 256, ofRow.sum().item_long(), "row " + row);
        }
    }
}
