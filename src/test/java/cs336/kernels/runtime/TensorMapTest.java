package cs336.kernels.runtime;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

class TensorMapTest {
    /** Copies the box at (row, head, batch) of a bf16 tensor to global memory and removes the swizzle. */
    private static final String COPY_OUT = """
            struct __align__(64) TensorMap { unsigned long long words[16]; };
            extern "C" __global__ void copy_out(
                    float before, const __grid_constant__ TensorMap map, unsigned short *to, int row, int head, int batch) {
                __shared__ __align__(1024) unsigned short tile[16 * 64];
                __shared__ __align__(8) unsigned long long arrived;
                unsigned bar = (unsigned)__cvta_generic_to_shared(&arrived);
                unsigned at = (unsigned)__cvta_generic_to_shared(tile);
                if (threadIdx.x == 0) {
                    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
                    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
                    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 2048;" ::"r"(bar) : "memory");
                    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                                 "[%1, {%3, %4, %5, %6}], [%2];"
                                 ::"r"(at), "l"(&map), "r"(bar), "r"(0), "r"(row), "r"(head), "r"(batch) : "memory");
                }
                __syncthreads();
                int done = 0;
                while (!done)
                    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                                 : "=r"(done) : "r"(bar) : "memory");
                for (int i = threadIdx.x; i < 16 * 64; i += blockDim.x) {
                    int r = i / 64, piece = i % 64 / 8;
                    to[i] = tile[r * 64 + (piece ^ (r % 8)) * 8 + i % 8];
                }
            }
            """;

    @Test
    @Tag("gpu")
    void aBoxOfAStridedTensorIsLoadedWithZerosBeyondItsEnd() {
        Device device = Device.cuda(0);
        Assumptions.assumeTrue(GpuArchitecture.of(device).major() >= 9, "TMA needs Hopper");
        try (var scope = MemoryScope.open()) {
            Tensor wide = torch.randn(new long[] {2, 21, 3, 40}, device.options(DType.BFLOAT16));
            Tensor x = wide.transpose(1, 2); // [B, H, T, d]
            assertTrue(TensorMap.fits(x));
            Tensor box = torch.zeros(new long[] {16, 64}, device.options(DType.BFLOAT16))
                    .fill_(new Scalar(Double.NaN));
            Kernel kernel = KernelModule.load(KernelSource.of("copy_out.cu", COPY_OUT), Map.of(), device)
                    .kernel("copy_out");
            // On a thread without a current context, as in a backward pass.
            CompletableFuture.runAsync(
                            () -> kernel.launch(
                                    new GridDim(1),
                                    new BlockDim(128),
                                    0,
                                    0f,
                                    TensorMap.of(x, 1, 1, 16, 64),
                                    box,
                                    8,
                                    2,
                                    1),
                            task -> new Thread(task).start())
                    .join();
            device.synchronize();
            double[] expected = new double[16 * 64];
            double[] rows = Tensors.toDoubles(x.select(0, 1).select(0, 2).narrow(0, 8, 13)); // rows 8 to 20
            for (int r = 0; r < 13; r++) {
                System.arraycopy(rows, r * 40, expected, r * 64, 40);
            }
            assertArrayEquals(expected, Tensors.toDoubles(box));
            box.fill_(new Scalar(Double.NaN));
            TensorMap ofOneSequence = TensorMap.of(x.select(0, 1), 1, 1, 16, 64); // [H, T, d]
            kernel.launch(new GridDim(1), new BlockDim(128), 0, 0f, ofOneSequence, box, 8, 2, 0);
            assertArrayEquals(expected, Tensors.toDoubles(box));
        }
    }

    @Test
    void onlyTensorsThatTmaCanAccessFit() {
        try (var scope = MemoryScope.open()) {
            Tensor x = zeros(2, 3, 10, 8); // rows of 16 bytes
            assertTrue(TensorMap.fits(x));
            assertTrue(TensorMap.fits(x.transpose(1, 2)));
            assertTrue(TensorMap.fits(x.narrow(1, 1, 2)));
            assertTrue(TensorMap.fits(zeros(1, 1, 5, 8).transpose(0, 1)));
            assertFalse(TensorMap.fits(zeros(2, 3, 10, 4)), "rows of 8 bytes");
            assertFalse(TensorMap.fits(x.transpose(2, 3)), "last dimension not contiguous");
            assertFalse(TensorMap.fits(zeros(2, 3, 10, 16).narrow(3, 4, 8)), "begins at byte 8");
            assertFalse(TensorMap.fits(zeros(1, 3, 10, 8).expand(2, 3, 10, 8)), "stride 0");
        }
    }

    @Test
    void aBoxThatDoesNotFitIsRefused() {
        try (var scope = MemoryScope.open()) {
            Tensor x = zeros(2, 3, 10, 64);
            assertRefused("box must have at least as many dimensions as the tensor", x, 16, 64);
            assertRefused("box must have at least as many dimensions as the tensor", x, 1, 1, 1, 1, 16, 64);
            assertRefused("box must have at least as many dimensions as the tensor", zeros(64), 16, 64);
            assertRefused("box must have 1 to 256 elements per dimension", x, 1, 1, 257, 64);
            assertRefused("box must have 1 to 256 elements per dimension", x, 1, 0, 16, 64);
            assertRefused("box must have 64 elements in its last dimension for bf16, not 32", x, 1, 1, 16, 32);
            assertRefused(
                    "tensor must have rows that are contiguous and aligned to 16 bytes", zeros(2, 10, 4), 1, 16, 64);
        }
    }

    private static void assertRefused(String message, Tensor x, int... box) {
        String said = assertThrows(IllegalArgumentException.class, () -> TensorMap.of(x, box))
                .getMessage();
        assertTrue(said.contains(message), said);
        assertEquals(1, said.lines().count());
    }

    private static Tensor zeros(long... shape) {
        return torch.zeros(shape, Device.cpu().options(DType.BFLOAT16));
    }

    @Test
    void whatTmaCannotAccessIsCopied() {
        try (var scope = MemoryScope.open()) {
            Tensor x = zeros(6, 8);
            assertSame(x, TensorMap.reachable(x));
            Tensor transposed = torch.randn(16, 6).t();
            assertFalse(TensorMap.fits(transposed));
            Tensor copy = TensorMap.reachable(transposed);
            assertTrue(TensorMap.fits(copy) && copy.equal(transposed));
        }
    }
}
