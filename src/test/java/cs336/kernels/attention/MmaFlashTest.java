package cs336.kernels.attention;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.kernels.attention.MmaTile.MmaKernel;
import cs336.kernels.runtime.Fp32Emulation;
import cs336.kernels.runtime.GpuArchitecture;
import cs336.kernels.runtime.KernelVariant;
import cs336.kernels.runtime.Occupancy;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests of {@link MmaFlash} that need no GPU. */
class MmaFlashTest {
    @Test
    void tensorsOnTheCpuAreRejected() {
        try (var scope = MemoryScope.open()) {
            Tensor x = torch.ones(new long[] {1, 4, 16}, Device.cpu().options(DType.FLOAT32));
            var thrown = assertThrows(
                    IllegalArgumentException.class,
                    () -> FlashAttention.apply(x, x, x, false, new MmaFlash(Fp32Emulation.TF32)));
            assertEquals("q must be on a CUDA device for these kernels, not on cpu", thrown.getMessage());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"sm_80", "sm_86", "sm_90a", "sm_100a"})
    void smBlocksOfEveryTileFitIntoTheSharedMemoryOfEveryArchitecture(String name) {
        GpuArchitecture architecture = GpuArchitecture.parse(name);
        assertTrue(MmaTileTable.all(architecture).count() >= 3 * 4 * 5); // kernels, operands, widths
        MmaTileTable.all(architecture).forEach(tile -> {
            int shared = tile.smBlocks() * (tile.sharedBytes() + 1024);
            assertTrue(shared <= Occupancy.sharedBytes(architecture), tile::toString);
            assertTrue(tile.smBlocks() >= 1 && tile.columns() >= 16, tile::toString);
        });
    }

    @Test
    void widthsWithoutKernelsAreRejected() {
        var thrown = assertThrows(
                IllegalArgumentException.class,
                () -> MmaTileTable.of(MmaKernel.FORWARD, DType.FLOAT32, 3, 48, 1024, KernelVariant.HOPPER, 132));
        assertEquals("width must be one of [16, 32, 64, 80, 128], not 48", thrown.getMessage());
    }

    @Test
    void warpsShareRowsIfThereAreFew() {
        GpuArchitecture hopper = KernelVariant.HOPPER;
        for (MmaKernel kernel : MmaKernel.values()) {
            MmaTile few = MmaTileTable.of(kernel, DType.FLOAT32, 3, 64, 1024, hopper, 132);
            MmaTile many = MmaTileTable.of(kernel, DType.FLOAT32, 3, 64, 1 << 18, hopper, 132);
            assertTrue(few.columnWarps() > 1 && few.rows() <= 32, few::toString);
            assertTrue(many.columnWarps() == 1 && many.rows() >= 2 * few.rows(), many::toString);
            MmaTile onSmallerGpu = MmaTileTable.of(kernel, DType.FLOAT32, 3, 64, 1 << 14, hopper, 8);
            assertEquals(many, onSmallerGpu);
        }
    }

    @Test
    void aTileWiderThanTheSharedMemoryKeepsItsWarpsAndHasFewerColumns() {
        for (MmaKernel kernel : List.of(MmaKernel.QUERIES, MmaKernel.KEYS)) {
            MmaTile hopper = MmaTileTable.of(kernel, DType.FLOAT32, 3, 64, 1 << 14, KernelVariant.HOPPER, 132);
            MmaTile ampere = MmaTileTable.of(kernel, DType.FLOAT32, 3, 64, 1 << 14, KernelVariant.AMPERE, 132);
            assertEquals(hopper.threads(), ampere.threads(), ampere::toString);
            assertEquals(hopper.rows(), ampere.rows(), ampere::toString);
            assertEquals(hopper.columns() / 2, ampere.columns(), ampere::toString);
        }
    }

    @Test
    void headsAreCopiedOnlyIfTheirLayoutDoesNotFit() {
        try (var scope = MemoryScope.open()) {
            Tensor x = torch.randn(new long[] {2, 5, 3, 32}, Device.cpu().options(DType.BFLOAT16));
            assertSame(true, x, 32);
            assertSame(true, x.transpose(1, 2), 32); // [2, 3, 5, 32]
            assertSame(true, x.narrow(3, 8, 16), 16);
            assertSame(false, x.narrow(3, 4, 16), 16); // 8 bytes into a row
            assertSame(false, x.transpose(2, 3).contiguous().transpose(2, 3), 32);
            assertSame(false, x.narrow(3, 0, 24), 32);
            assertSame(true, x.view(10, 3, 32), 32);
        }
    }

    private static void assertSame(boolean same, Tensor x, int width) {
        HeadRows rows = HeadRows.of(x, width);
        long d = x.size(-1);
        assertEquals(same, rows.tensor().data_ptr().address() == x.data_ptr().address());
        Tensor back = torch.empty_like(x);
        rows.copyTo(back);
        assertTrue(back.equal(x));
        assertEquals(width, rows.width());
        assertEquals(
                0,
                Tensors.toDoubles(rows.tensor().narrow(-1, d, width - d).abs().sum())[0]);
    }
}
