package cs336.kernels.runtime;

import static cs336.kernels.Closeness.assertClose;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.kernels.norms.RmsNormTile;
import cs336.kernels.norms.RmsNormTileSearch;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Launches on a GPU. */
@Tag("gpu")
class KernelGpuTest {
    private static final String SOURCE = """
            extern "C" __global__ void affine(float *x, float factor, int n, long offset) {
                int i = blockIdx.x * blockDim.x + threadIdx.x;
                if (i < n) x[i] = x[i] * factor + offset;
            }
            extern "C" __global__ void reverse(int *x, int n) {
                extern __shared__ int staged[];
                for (int i = threadIdx.x; i < n; i += blockDim.x) staged[i] = x[i];
                __syncthreads();
                for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = staged[n - 1 - i];
            }
            extern "C" __global__ void nothing(float *x) {}
            """;

    private MemoryScope scope;
    private Device device;
    private KernelModule module;

    @BeforeEach
    void open() {
        scope = MemoryScope.open();
        device = Device.cuda(0);
        module = KernelModule.load(KernelSource.of("test.cu", SOURCE), Map.of(), device);
    }

    @AfterEach
    void close() {
        device.synchronize();
        scope.close();
    }

    @Test
    void argumentsOfEachTypeArrive() {
        Tensor x = torch.ones(new long[] {1000}, device.options(DType.FLOAT32));
        module.kernel("affine").launch(new GridDim(4), new BlockDim(256), 0, x, 2.5f, 999, -(1L << 40));
        double[] values = Tensors.toDoubles(x);
        assertClose("x[0]", new double[] {2.5 - (1L << 40)}, new double[] {values[0]}, 1e-6, 0);
        assertEquals(1, values[999]);
    }

    @Test
    void moreThan48KibOfSharedMemoryCanBeUsed() {
        int n = 40_000; // 160 kB
        Tensor x = torch.arange(new Scalar(n), device.options(DType.INT32));
        module.kernel("reverse").launch(new GridDim(1), new BlockDim(1024), n * 4, x, n);
        assertArrayEquals(IntStream.range(0, n).mapToDouble(i -> n - 1 - i).toArray(), Tensors.toDoubles(x));
    }

    @Test
    void argumentsThatDoNotFitAreNamedBeforeTheLaunch() {
        Kernel affine = module.kernel("affine");
        Tensor x = torch.ones(new long[] {10}, device.options(DType.FLOAT32));
        var grid = new GridDim(1);
        var block = new BlockDim(32);
        assertRefused("affine takes 4 arguments, not 3", () -> affine.launch(grid, block, 0, x, 1f, 10));
        assertRefused(
                "argument 2 of affine has 8 bytes as Long, but the parameter has 4",
                () -> affine.launch(grid, block, 0, x, 1f, 10L, 0L));
        assertRefused(
                "argument 0 of affine is on cpu, but the kernel is on cuda:0",
                () -> affine.launch(grid, block, 0, torch.ones(10), 1f, 10, 0L));
        assertRefused(
                "argument 1 of affine must be a Tensor, Integer, Long, Float or TensorMap, not Double",
                () -> affine.launch(grid, block, 0, x, 1.0, 10, 0L));
        assertRefused("kernel 'skale' is unknown; there are [affine", () -> module.kernel("skale"));
    }

    private static void assertRefused(String message, org.junit.jupiter.api.function.Executable call) {
        String said = assertThrows(IllegalArgumentException.class, call).getMessage();
        assertTrue(said.contains(message), said);
    }

    @Test
    void driverErrorsHaveCudasName() {
        Tensor x = torch.ones(new long[] {10}, device.options(DType.INT32));
        String said = assertThrows(
                        IllegalStateException.class,
                        () -> module.kernel("reverse").launch(new GridDim(1), new BlockDim(32), 1 << 20, x, 10))
                .getMessage();
        assertTrue(said.contains("CUDA_ERROR_INVALID_VALUE") && said.contains("1048576"), said);
        String wrong = assertThrows(
                        IllegalStateException.class,
                        () -> KernelModule.load(new Cubin(new byte[] {1, 2, 3, 4, 5, 6, 7, 8}, ""), device))
                .getMessage();
        assertTrue(wrong.startsWith("cuModuleLoadData failed: CUDA_ERROR"), wrong);
    }

    @Test
    void newThreadsCanLaunch() throws Exception {
        Kernel affine = module.kernel("affine");
        Tensor x = torch.zeros(new long[] {1000}, device.options(DType.FLOAT32));
        ExecutorService threads = Executors.newFixedThreadPool(4);
        try {
            List<Future<?>> launches = IntStream.range(0, 400)
                    .<Future<?>>mapToObj(i ->
                            threads.submit(() -> affine.launch(new GridDim(4), new BlockDim(256), 0, x, 1f, 1000, 1L)))
                    .toList();
            for (Future<?> launch : launches) {
                launch.get();
            }
        } finally {
            threads.shutdown();
        }
        device.synchronize();
        assertEquals(400, Tensors.toDoubles(x)[999]);
    }

    @Test
    void occupancyEqualsThatOfTheDriver() {
        Kernel reverse = module.kernel("reverse");
        GpuArchitecture architecture = GpuArchitecture.of(device);
        for (int threads : new int[] {32, 96, 256, 640, 1024}) {
            for (int shared : new int[] {0, 1000, 40_000, 100_000}) {
                assertEquals(
                        reverse.residentBlocks(new BlockDim(threads), shared),
                        reverse.resources()
                                .occupancy(architecture, threads, shared)
                                .blocks(),
                        threads + " threads, " + shared + " bytes");
            }
        }
        for (RmsNormTile tile : RmsNormTileSearch.candidates(layout(), false).subList(0, 20)) {
            Kernel kernel = KernelModule.load(KernelSource.named("rmsnorm.cu"), tile.defines(layout()), device)
                    .kernel("rmsnorm_backward");
            int shared = tile.sharedBytes(layout());
            assertEquals(
                    kernel.residentBlocks(new BlockDim(tile.blockThreads()), shared),
                    kernel.resources()
                            .occupancy(architecture, tile.blockThreads(), shared)
                            .blocks(),
                    tile + " " + kernel.resources());
        }
    }

    private RowLayout layout() {
        return new RowLayout(1024, DType.FLOAT32, DType.FLOAT32, 4, device);
    }

    @Test
    void aLaunchTakesAFewMicroseconds() {
        Kernel nothing = module.kernel("nothing");
        Tensor x = torch.ones(new long[] {1}, device.options(DType.FLOAT32));
        var grid = new GridDim(1);
        var block = new BlockDim(32);
        double best = Double.POSITIVE_INFINITY;
        for (int round = 0; round < 20; round++) {
            device.synchronize();
            long started = System.nanoTime();
            for (int i = 0; i < 500; i++) {
                try (var inner = MemoryScope.open()) {
                    nothing.launch(grid, block, 0, x);
                }
            }
            best = Math.min(best, (System.nanoTime() - started) / 500e3);
        }
        System.out.printf("a launch takes %.2f µs%n", best);
        assertTrue(best < 10, best + " µs");
    }
}
