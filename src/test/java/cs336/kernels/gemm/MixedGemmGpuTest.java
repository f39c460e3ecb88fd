package cs336.kernels.gemm;

import static cs336.kernels.gemm.GemmTensors.GPU;
import static cs336.kernels.gemm.GemmTensors.error;
import static cs336.kernels.gemm.GemmTensors.fillWithNaN;
import static cs336.kernels.gemm.GemmTensors.wide;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import cs336.kernels.runtime.Gpu;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.ScopedTest;
import cs336.torch.Torch;
import cs336.units.IntegerMath;
import java.util.Arrays;
import java.util.Random;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Compares with fp64: the operands, rounded to 16 bits, and the result have the only errors. */
@Tag("gpu")
class MixedGemmGpuTest extends ScopedTest {
    private static final double SUM_ERROR = 3e-5; // norm of the error over the norm, beyond the rounding of the result
    private static final int RUNS = 40;

    @BeforeEach
    void drawOtherNumbers() {
        assumeTrue(Gpu.of(GPU).runsHopperKernels(), "needs a Hopper GPU");
        Torch.seed(System.nanoTime());
    }

    private static Tensor random(DType type, long rows, long columns) {
        return GemmTensors.random(rows, columns).to(type.scalarType());
    }

    private static Tensor multiply(Tensor x, Tensor... weights) {
        long columns = weights[0].size(0) * weights.length;
        fillWithNaN(DType.of(x), x.size(0), columns);
        return new MixedGemm(Epilogue.NONE).compute(inputs(x, weights))[0];
    }

    private static Tensor[] inputs(Tensor x, Tensor[] weights) {
        return Stream.concat(Stream.of(x), Arrays.stream(weights)).toArray(Tensor[]::new);
    }

    private static void requireExact(Tensor x, Tensor... weights) {
        Tensor product = multiply(x, weights);
        for (int i = 0; i < weights.length; i++) {
            long columns = weights[i].size(0);
            Tensor found = product.narrow(1, i * columns, columns);
            requireExact(found, exact(x, weights[i]), "weight " + i + " of " + weights.length + ", depth " + x.size(1));
        }
    }

    private static Tensor exact(Tensor x, Tensor weight) {
        return wide(x).mm(wide(weight.to(x.scalar_type())).t());
    }

    private static Tensor exact(Epilogue epilogue, Tensor x, Tensor[] weights) {
        return GemmTensors.applied(
                epilogue, Arrays.stream(weights).map(w -> exact(x, w)).toArray(Tensor[]::new));
    }

    private static void requireExact(Tensor found, Tensor exact, String problem) {
        // The best result of this dtype has the rounding error of the exact one.
        double best = error(wide(exact.to(found.scalar_type())), exact);
        double error = error(wide(found), exact);
        String text = problem + ", " + found.size(0) + " × " + found.size(1) + ": error " + error + ", at best " + best;
        assertTrue(error < Math.hypot(best, SUM_ERROR) * 1.001, text);
    }

    @Test
    void productsOfRandomSizesEqualThoseInDoublePrecision() {
        var draw = new Random();
        for (int i = 0; i < RUNS; i++) {
            try (var scope = MemoryScope.open()) {
                DType type = i % 2 == 0 ? DType.BFLOAT16 : DType.FLOAT16;
                int weights = 1 + draw.nextInt(LinearProblem.MOST_WEIGHTS);
                long rows = 1 + draw.nextInt(2500);
                long columns = weights == 1 ? 8L * (1 + draw.nextInt(1300)) : 128L * (1 + draw.nextInt(12));
                long depth = 8L * (1 + draw.nextInt(400));
                Tensor[] all = new Tensor[weights];
                Arrays.setAll(all, n -> random(DType.FLOAT32, columns, depth));
                requireExact(random(type, rows, depth), all);
            }
        }
    }

    @ParameterizedTest
    @EnumSource(
            value = Epilogue.class,
            names = {"GELU", "SWIGLU"})
    void functionsOfProductsOfRandomSizesEqualThoseInDoublePrecision(Epilogue epilogue) {
        var draw = new Random();
        for (int i = 0; i < RUNS; i++) {
            try (var scope = MemoryScope.open()) {
                DType type = i % 2 == 0 ? DType.BFLOAT16 : DType.FLOAT16;
                long rows = 1 + draw.nextInt(2500);
                long columns = 8L * (1 + draw.nextInt(1300));
                long depth = 8L * (1 + draw.nextInt(400));
                Tensor x = random(type, rows, depth);
                Tensor[] weights = GemmTensors.weights(epilogue, columns, depth);
                fillWithNaN(type, rows, columns);
                Tensor found = new MixedGemm(epilogue).compute(inputs(x, weights))[0];
                requireExact(found, exact(epilogue, x, weights), epilogue + ", depth " + depth);
            }
        }
    }

    @Test
    void splitTilesOfRandomSizesEqualThoseInDoublePrecision() {
        var draw = new Random();
        for (int i = 0; i < RUNS; i++) {
            try (var scope = MemoryScope.open()) {
                DType type = i % 2 == 0 ? DType.BFLOAT16 : DType.FLOAT16;
                Epilogue epilogue = Epilogue.values()[i % Epilogue.values().length];
                long rows = 1 + draw.nextInt(1500);
                long columns = 8L * (1 + draw.nextInt(500));
                long depth = 8L * (1 + draw.nextInt(400));
                Tensor x = random(type, rows, depth);
                Tensor[] weights = GemmTensors.weights(epilogue, columns, depth);
                int tiles = (int) MixedGemm.tiles(LinearProblem.of(x, weights));
                int split = 1 + draw.nextInt(tiles);
                int stages = (int) IntegerMath.ceilDiv(depth, MixedGemm.STAGE_DEPTH);
                var division = new TileDivision(tiles - split, split, 1 + draw.nextInt(stages));
                fillWithNaN(type, rows, columns);
                fillWithNaN(DType.FLOAT32, division.allParts() * MixedGemm.TILE_ROWS, MixedGemm.TILE_COLUMNS);
                Tensor found = new MixedGemm(epilogue).onGpu(x, weights, division);
                requireExact(found, exact(epilogue, x, weights), epilogue + ", " + division);
            }
        }
    }

    @Test
    void sizesOfModelsEqualThoseInDoublePrecision() {
        for (long rows : new long[] {512, 2048}) {
            try (var scope = MemoryScope.open()) {
                requireExact(random(DType.BFLOAT16, rows, 2560), random(DType.FLOAT32, 10240, 2560));
                requireExact(random(DType.BFLOAT16, rows, 6400), random(DType.FLOAT32, 1600, 6400));
            }
        }
    }

    @Test
    void gapsBetweenRowsAndUnalignedAddressesAreAllowed() {
        requireExact(
                random(DType.BFLOAT16, 200, 512).narrow(1, 64, 256),
                random(DType.FLOAT32, 304, 512).narrow(1, 4, 256));
        Tensor x = random(DType.BFLOAT16, 1, 1 + 256 * 256).flatten();
        requireExact(x.narrow(0, 1, 256 * 256).view(256, 256), GemmTensors.unaligned(256, 256));
    }

    @Test
    void resultsAreReproducible() {
        requireReproducible(random(DType.BFLOAT16, 1000, 1600), random(DType.FLOAT32, 6400, 1600));
        // Several clusters compute a tile.
        requireReproducible(random(DType.BFLOAT16, 1000, 6400), random(DType.FLOAT32, 1600, 6400));
    }

    private static void requireReproducible(Tensor x, Tensor w) {
        Tensor first = multiply(x, w);
        for (int i = 0; i < RUNS; i++) {
            try (var scope = MemoryScope.open()) {
                assertTrue(first.equal(multiply(x, w)), "run " + i);
            }
        }
    }

    @Test
    void anInfiniteOperandGivesNoFiniteNumber() {
        Tensor w = random(DType.FLOAT32, 256, 256);
        w.select(0, 3).narrow(0, 7, 1).fill_(new Scalar(Double.POSITIVE_INFINITY));
        w.select(0, 5).narrow(0, 9, 1).fill_(new Scalar(Double.NaN));
        Tensor finite = torch.isfinite(multiply(random(DType.BFLOAT16, 300, 256), w));
        for (long column = 0; column < w.size(0); column++) {
            long count = finite.select(1, column).sum().item_long();
            assertEquals(column == 3 || column == 5 ? 0 : 300, count, "column " + column);
        }
    }
}
