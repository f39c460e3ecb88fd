package cs336.kernels.gemm;

import static cs336.kernels.gemm.GemmTensors.GPU;
import static cs336.kernels.gemm.GemmTensors.error;
import static cs336.kernels.gemm.GemmTensors.fillWithNaN;
import static cs336.kernels.gemm.GemmTensors.random;
import static cs336.kernels.gemm.GemmTensors.rounded;
import static cs336.kernels.gemm.GemmTensors.wide;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import cs336.kernels.runtime.Gpu;
import cs336.torch.CudaGraph;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.ScopedTest;
import cs336.torch.Torch;
import java.util.Arrays;
import java.util.Random;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Compares with fp64, with operands that were rounded to TF32 before and with the original ones. */
@Tag("gpu")
class Tf32GemmGpuTest extends ScopedTest {
    private static final double SUM_ERROR = 3e-5; // tensor cores truncate sums; norm of the error over the norm
    private static final double ROUNDING_ERROR = 3.2e-4; // of the operands, 2^-11 / sqrt(3) · sqrt(2) with a margin
    private static final int RUNS = 60;

    @BeforeEach
    void drawOtherNumbers() {
        assumeTrue(Gpu.of(GPU).runsHopperKernels(), "needs a Hopper GPU");
        Torch.seed(System.nanoTime());
    }

    private static Tensor multiply(int tileColumns, Tensor x, Tensor... weights) {
        long columns = weights[0].size(0) * weights.length;
        fillWithNaN(DType.FLOAT32, x.size(0), columns);
        return new Tf32Gemm(Epilogue.NONE).onGpu(tileColumns, x, weights);
    }

    private static void requireExact(int tileColumns, Tensor x, Tensor... weights) {
        Tensor product = multiply(tileColumns, x, weights);
        for (int i = 0; i < weights.length; i++) {
            long columns = weights[i].size(0);
            Tensor part = wide(product.narrow(1, i * columns, columns));
            double sum = error(part, rounded(x).mm(rounded(weights[i]).t()));
            double all = error(part, wide(x).mm(wide(weights[i]).t()));
            String text = "weight " + i + " of " + weights.length + ", " + x.size(0) + " × " + x.size(1) + " × "
                    + columns + " with tiles of " + tileColumns + ": errors " + sum + ", " + all;
            assertTrue(sum < SUM_ERROR && all < ROUNDING_ERROR, text);
        }
    }

    @Test
    void productsOfRandomSizesEqualThoseInDoublePrecision() {
        var draw = new Random();
        for (int i = 0; i < RUNS; i++) {
            try (var scope = MemoryScope.open()) {
                int tileColumns = Tf32Gemm.TILE_COLUMNS.get(i % Tf32Gemm.TILE_COLUMNS.size());
                int weights = 1 + draw.nextInt(LinearProblem.MOST_WEIGHTS);
                long rows = 1 + draw.nextInt(3000);
                long columns =
                        weights == 1 ? 4L * (1 + draw.nextInt(2000)) : (long) tileColumns * (1 + draw.nextInt(9));
                long depth = 4L * (1 + draw.nextInt(800));
                Tensor[] all = new Tensor[weights];
                Arrays.setAll(all, n -> random(columns, depth));
                requireExact(tileColumns, random(rows, depth), all);
            }
        }
    }

    @Test
    void sizesOfModelsEqualThoseInDoublePrecision() {
        for (int tileColumns : Tf32Gemm.TILE_COLUMNS) {
            try (var scope = MemoryScope.open()) {
                requireExact(tileColumns, random(512, 10240), random(2560, 10240));
                requireExact(tileColumns, random(2048, 1600), random(6400, 1600));
            }
        }
    }

    @Test
    void theFastestTileOfSeveralWeightsComputesAllOfThem() {
        for (long columns : new long[] {768, 1280, 2560}) {
            try (var scope = MemoryScope.open()) {
                Tensor x = random(512, columns);
                Tensor[] weights = {random(columns, columns), random(columns, columns), random(columns, columns)};
                Tensor product = new Tf32Gemm(Epilogue.NONE).compute(x, weights[0], weights[1], weights[2])[0];
                for (int i = 0; i < weights.length; i++) {
                    Tensor part = wide(product.narrow(1, i * columns, columns));
                    assertTrue(error(part, wide(x).mm(wide(weights[i]).t())) < ROUNDING_ERROR, "weight " + i);
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource(
            value = Epilogue.class,
            names = {"GELU", "SWIGLU"})
    void functionsOfProductsAreThoseOfRoundedOperands(Epilogue epilogue) {
        var draw = new Random();
        for (int tileColumns : Tf32Gemm.TILE_COLUMNS) {
            for (int i = 0; i < RUNS / 10; i++) {
                try (var scope = MemoryScope.open()) {
                    long rows = 1 + draw.nextInt(1500);
                    long columns = 4L * (1 + draw.nextInt(1500));
                    long depth = 4L * (1 + draw.nextInt(300));
                    Tensor x = random(rows, depth);
                    Tensor[] weights = GemmTensors.weights(epilogue, columns, depth);
                    fillWithNaN(DType.FLOAT32, rows, columns);
                    Tensor found = new Tf32Gemm(epilogue).onGpu(tileColumns, x, weights);
                    Tensor exact = GemmTensors.applied(
                            epilogue,
                            Arrays.stream(weights)
                                    .map(w -> rounded(x).mm(rounded(w).t()))
                                    .toArray(Tensor[]::new));
                    double error = error(wide(found), exact);
                    assertTrue(
                            error < SUM_ERROR,
                            rows + " × " + columns + " × " + depth + " with tiles of " + tileColumns + ": " + error);
                }
            }
        }
    }

    @Test
    void geluIsExactTo1e7() {
        Tensor x = random(512, 256);
        x.mul_(new Scalar(3.0)); // from about -13 to 13
        Tensor identity = torch.eye(256, GPU.options(DType.FLOAT32));
        Tensor sums = multiply(128, x, identity); // x in TF32, exactly
        Tensor gelu = new Tf32Gemm(Epilogue.GELU).onGpu(128, x, identity);
        Tensor error = wide(gelu).sub(torch.gelu(wide(sums))).abs();
        Tensor limit = wide(sums).abs().clamp_min(new Scalar(1.0)).mul(new Scalar(1.5e-7));
        assertEquals(
                0,
                error.gt(limit).sum().item_long(),
                () -> "largest error " + error.max().item_double());
    }

    @Test
    void gapsBetweenRowsAndUnalignedAddressesAreAllowed() {
        requireExact(96, random(200, 512).narrow(1, 64, 256), random(300, 512).narrow(1, 4, 256));
        Tensor unaligned = GemmTensors.unaligned(256, 256);
        Tensor product = new Tf32Gemm(Epilogue.NONE).compute(unaligned, unaligned)[0];
        Tensor exact = wide(unaligned).mm(wide(unaligned).t());
        assertTrue(error(wide(product), exact) < ROUNDING_ERROR);
        Tensor ofRounded = rounded(unaligned).mm(rounded(unaligned).t());
        Tensor swiGlu = new Tf32Gemm(Epilogue.SWIGLU).compute(unaligned, unaligned, unaligned)[0];
        assertTrue(error(wide(swiGlu), torch.silu(ofRounded).mul(ofRounded)) < SUM_ERROR, "SwiGLU");
    }

    @Test
    void resultsAreReproducible() {
        Tensor x = random(1000, 1600);
        Tensor w = random(6400, 1600);
        Tensor first = multiply(208, x, w);
        for (int i = 0; i < RUNS; i++) {
            try (var scope = MemoryScope.open()) {
                assertTrue(first.equal(multiply(208, x, w)), "run " + i);
            }
        }
    }

    @Test
    void replaysOfAGraphEqualDirectCalls() {
        Tensor x = random(512, 1280);
        Tensor w = random(1280, 1280);
        Tensor c = torch.empty_like(x);
        Runnable work = () -> {
            try (var scope = MemoryScope.open()) {
                c.copy_(new Tf32Gemm(Epilogue.NONE).compute(new Tf32Gemm(Epilogue.NONE).compute(x, w)[0], w)[0]);
            }
        };
        try (var graph = CudaGraph.on(GPU)) {
            graph.warmUp(work);
            graph.record(work);
            for (int i = 0; i < RUNS; i++) {
                x.normal_();
                graph.replay();
                try (var scope = MemoryScope.open()) {
                    Tensor once = new Tf32Gemm(Epilogue.NONE).compute(x, w)[0];
                    assertTrue(c.equal(new Tf32Gemm(Epilogue.NONE).compute(once, w)[0]), "replay " + i);
                }
            }
        }
    }

    @Test
    void anInfiniteOperandGivesNoFiniteNumber() {
        Tensor x = random(256, 256);
        x.select(0, 3).narrow(0, 7, 1).fill_(new Scalar(Double.POSITIVE_INFINITY));
        x.select(0, 5).narrow(0, 9, 1).fill_(new Scalar(Double.NaN));
        Tensor w = random(256, 256);
        Tensor finite = torch.isfinite(multiply(128, x, w));
        Tensor finiteGelu =
                torch.isfinite(new Tf32Gemm(Epilogue.GELU).onGpu(128, x, w).narrow(0, 5, 1));
        for (long row = 0; row < x.size(0); row++) {
            assertEquals(
                    row == 3 || row == 5 ? 0 : 256, finite.select(0, row).sum().item_long(), "row " + row);
        }
        assertEquals(0, finiteGelu.sum().item_long(), "GELU of NaN");
    }
}
