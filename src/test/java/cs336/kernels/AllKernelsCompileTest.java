package cs336.kernels;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.ChildJvm;
import cs336.bench.Project;
import cs336.kernels.attention.FirstFlash;
import cs336.kernels.attention.FirstFlash.FirstFlashKernel;
import cs336.kernels.attention.FlashRows;
import cs336.kernels.attention.FlashRows.RowKernel;
import cs336.kernels.attention.HopperBackwardTile;
import cs336.kernels.attention.HopperForwardTile;
import cs336.kernels.attention.MmaTileTable;
import cs336.kernels.gemm.Epilogue;
import cs336.kernels.gemm.Fp32Gemm;
import cs336.kernels.gemm.MixedGemm;
import cs336.kernels.gemm.OperandCopy;
import cs336.kernels.gemm.Tf32Gemm;
import cs336.kernels.loss.FusedCrossEntropy;
import cs336.kernels.norms.RmsNormTile;
import cs336.kernels.norms.WeightedSum;
import cs336.kernels.optimizer.MultiTensorAdamW;
import cs336.kernels.runtime.Cubin;
import cs336.kernels.runtime.Fp32Emulation;
import cs336.kernels.runtime.KernelCompiler;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.KernelVariant;
import cs336.kernels.runtime.RowLayout;
import cs336.kernels.runtime.TensorChecks;
import cs336.torch.DType;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Compiles every variant of every kernel, without a GPU. No variant may spill registers or draw a compiler warning that
 * tensor-core instructions are serialized. A new family of kernels adds its variants to {@link #variants}.
 */
class AllKernelsCompileTest {
    private static Stream<KernelVariant> variants() {
        return Stream.of(
                        rmsNorm(), //
                        others(), //
                        firstFlash(), //
                        hopperForward(), //
                        hopperBackward(), //
                        mmaFlash())
                .flatMap(Function.identity());
    }

    /**
     * Compiles variants from the last one backwards, while the tests go forwards and find on disk what is done. It is a
     * process of its own because NVRTC compiles one kernel at a time in a process.
     */
    static final class Helper {
        /** Runs one helper; standard input gives the number of helpers and the number of this one. */
        public static void main(String[] none) throws Exception {
            var test = new ChildJvm.Child();
            int helpers = Integer.parseInt(test.next()), number = Integer.parseInt(test.next());
            List<KernelVariant> variants = variants().toList();
            for (int i = variants.size() - 1 - number; i >= 0; i -= helpers) {
                variants.get(i).faults();
            }
            test.end(0);
        }
    }

    private static final int MOST_PROCESSES = 8; // of 400 MB each
    private static final List<ChildJvm> HELPERS = new ArrayList<>();

    @BeforeAll
    static void startHelpers() throws IOException {
        if (variants().allMatch(KernelVariant::isCached)) {
            return; // nothing is left to compile
        }
        int helpers = Math.min(Runtime.getRuntime().availableProcessors(), MOST_PROCESSES) - 1;
        for (int number = 0; number < helpers; number++) {
            var helper = ChildJvm.start(Helper.class, Map.of(), line -> {});
            HELPERS.add(helper);
            helper.tell(String.valueOf(helpers));
            helper.tell(String.valueOf(number));
        }
    }

    @AfterAll
    static void endHelpers() {
        HELPERS.forEach(ChildJvm::close);
    }

    @ParameterizedTest
    @MethodSource("variants")
    void kernelFitsAMultiprocessorWithoutSpillsOrSerialisedTensorCores(KernelVariant variant) {
        assertEquals(List.of(), variant.faults(), variant::toString);
    }

    @Test
    void everySourceIsCompiled() throws IOException {
        Set<String> compiled = variants().map(KernelVariant::file).collect(Collectors.toSet());
        try (Stream<Path> files = Files.list(Project.path("kernels"))) {
            Set<String> sources = files.map(file -> file.getFileName().toString())
                    .filter(name -> name.endsWith(".cu"))
                    .collect(Collectors.toSet());
            assertEquals(sources, compiled);
        }
    }

    @Test
    void aSpillIsAFault() {
        String source = """
                extern "C" __global__ void __launch_bounds__(1024, 2) crowded(float *x) {
                    float v[64];
                #pragma unroll
                    for (int i = 0; i < 64; i++) v[i] = x[i * 1024 + threadIdx.x];
                    __syncthreads();
                #pragma unroll
                    for (int i = 0; i < 64; i++) x[(63 - i) * 1024 + threadIdx.x] = v[i] * v[63 - i];
                }
                """;
        assertFault("crowded spills", source);
    }

    @Test
    void aWgmmaResultReadBeforeItsWaitIsAFault() {
        String source = """
                extern "C" __global__ void hasty(float *out, unsigned long long a, unsigned long long b, int n) {
                    float d[4] = {};
                    for (int i = 0; i < n; i++) {
                        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
                                     "{%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
                        asm volatile("wgmma.commit_group.sync.aligned;");
                        out[threadIdx.x] += d[0];
                    }
                    asm volatile("wgmma.wait_group.sync.aligned 0;");
                    out[threadIdx.x] += d[1] + d[2] + d[3];
                }
                """;
        assertFault("(C75", source);
    }

    private static void assertFault(String expected, String source) {
        Cubin cubin =
                KernelCompiler.shared().compile(KernelSource.of("faulty.cu", source), Map.of(), KernelVariant.HOPPER);
        List<String> faults = KernelVariant.faults(cubin);
        assertTrue(faults.stream().anyMatch(fault -> fault.contains(expected)), faults + " in\n" + cubin.log());
    }

    private static Stream<KernelVariant> rmsNorm() {
        List<KernelVariant> variants = new ArrayList<>();
        int[] widths = {1, 50, 768, 1000, 1024, 1600, 2048, 2560, 4096, 4097, 8192, 16384, 65536};
        for (int width : widths) {
            for (RowLayout layout : layouts(width)) {
                for (RmsNormTile tile : List.of(
                        RmsNormTile.forward(layout), RmsNormTile.streaming(layout), RmsNormTile.backward(layout))) {
                    variants.add(new KernelVariant(
                            "rmsnorm.cu",
                            tile.pass().kernel(),
                            tile.defines(layout),
                            tile.blockThreads(),
                            tile.sharedBytes(layout)));
                }
            }
        }
        return variants.stream();
    }

    /** Returns layouts with 16-byte accesses for all dtypes, and some for addresses that are not 16-byte aligned. */
    private static List<RowLayout> layouts(int width) {
        List<RowLayout> layouts = new ArrayList<>();
        layouts.add(new RowLayout(width, DType.FLOAT32, DType.FLOAT32, vector(width, 4), null));
        layouts.add(new RowLayout(width, DType.BFLOAT16, DType.BFLOAT16, vector(width, 8), null));
        if (width % 1024 == 0) {
            layouts.add(new RowLayout(width, DType.BFLOAT16, DType.FLOAT32, vector(width, 8), null));
            layouts.add(new RowLayout(width, DType.FLOAT32, DType.FLOAT32, 1, null));
        }
        if (width == 1024) {
            layouts.add(new RowLayout(width, DType.FLOAT16, DType.FLOAT16, 8, null));
            layouts.add(new RowLayout(width, DType.FLOAT16, DType.FLOAT32, 2, null));
        }
        return layouts;
    }

    private static int vector(int width, int most) {
        int vector = most;
        while (width % vector != 0) {
            vector /= 2;
        }
        return vector;
    }

    private static Stream<KernelVariant> hopperForward() {
        List<KernelVariant> variants = new ArrayList<>();
        for (DType type : List.of(DType.BFLOAT16, DType.FLOAT16)) {
            for (HopperForwardTile tile : HopperForwardTile.all()) {
                variants.add(KernelVariant.forHopper(
                        HopperForwardTile.FILE,
                        HopperForwardTile.KERNEL,
                        tile.defines(type),
                        tile.blockThreads(),
                        tile.sharedBytes()));
            }
        }
        return variants.stream();
    }

    private static Stream<KernelVariant> hopperBackward() {
        List<KernelVariant> variants = new ArrayList<>();
        for (DType type : List.of(DType.BFLOAT16, DType.FLOAT16)) {
            HopperBackwardTile.all().forEach(tile -> {
                variants.add(KernelVariant.forHopper(
                        HopperBackwardTile.FILE,
                        HopperBackwardTile.KERNEL,
                        tile.defines(type),
                        HopperBackwardTile.THREADS,
                        tile.sharedBytes()));
                if (tile.split() > 1) {
                    return; // uses the same row kernels
                }
                var rows = tile.rows(type);
                for (RowKernel kernel : RowKernel.values()) {
                    variants.add(new KernelVariant(
                            FlashRows.FILE, kernel.function(), rows.defines(kernel), rows.threads(kernel), 0));
                }
            });
        }
        return variants.stream();
    }

    private static Stream<KernelVariant> others() {
        List<KernelVariant> variants = new ArrayList<>();
        for (int vector : new int[] {1, 4}) {
            variants.add(new KernelVariant(
                    MultiTensorAdamW.FILE,
                    MultiTensorAdamW.KERNEL,
                    MultiTensorAdamW.defines(vector),
                    MultiTensorAdamW.THREADS,
                    0));
        }
        for (Fp32Emulation emulation : Fp32Emulation.values()) {
            var gemm = new Fp32Gemm(emulation);
            for (boolean pAlong : new boolean[] {false, true}) {
                if (pAlong && emulation == Fp32Emulation.TF32) {
                    continue; // Tf32Gemm is for those
                }
                for (int tileColumns : gemm.tileColumns()) {
                    variants.add(KernelVariant.forHopper(
                            Fp32Gemm.FILE,
                            Fp32Gemm.KERNEL,
                            gemm.defines(pAlong, tileColumns),
                            Fp32Gemm.THREADS,
                            gemm.sharedBytes(tileColumns)));
                }
            }
        }
        for (boolean isTransposed : new boolean[] {false, true}) {
            for (int parts = isTransposed ? 1 : 2; parts <= 2; parts++) {
                variants.add(new KernelVariant(
                        OperandCopy.FILE,
                        OperandCopy.KERNEL,
                        OperandCopy.defines(isTransposed, parts),
                        OperandCopy.THREADS,
                        OperandCopy.sharedBytes(isTransposed)));
            }
        }
        for (Epilogue epilogue : Epilogue.values()) {
            for (DType type : List.of(DType.BFLOAT16, DType.FLOAT16)) {
                Map<String, Object> defines = new MixedGemm(epilogue).defines(type);
                variants.add(KernelVariant.forHopper(
                        MixedGemm.FILE, MixedGemm.KERNEL, defines, MixedGemm.THREADS, MixedGemm.SHARED_BYTES));
                variants.add(KernelVariant.forHopper(
                        MixedGemm.FILE, MixedGemm.SUM_KERNEL, defines, MixedGemm.SUM_THREADS, 0));
            }
            for (int tileColumns : Tf32Gemm.TILE_COLUMNS) {
                variants.add(KernelVariant.forHopper(
                        Tf32Gemm.FILE,
                        Tf32Gemm.KERNEL,
                        new Tf32Gemm(epilogue).defines(tileColumns),
                        Tf32Gemm.THREADS,
                        Tf32Gemm.sharedBytes(tileColumns)));
            }
        }
        for (DType type : List.of(DType.BFLOAT16, DType.FLOAT16)) {
            for (int vector : new int[] {1, 8}) {
                variants.add(new KernelVariant(
                        FusedCrossEntropy.FILE,
                        FusedCrossEntropy.KERNEL,
                        FusedCrossEntropy.defines(type, vector),
                        FusedCrossEntropy.THREADS,
                        0));
            }
        }
        for (DType type : TensorChecks.KERNEL_TYPES) {
            variants.add(new KernelVariant(
                    "column_sum.cu", "column_sum", Map.of("ELEMENT", RowLayout.cudaName(type)), 1024, 0));
            for (int vector = 1; vector <= 16 / type.bytes(); vector *= 2) {
                for (String pass : List.of("forward", "backward")) {
                    Map<String, Object> defines = WeightedSum.defines(pass, type, vector);
                    int threads = (int) defines.get("THREADS");
                    variants.add(new KernelVariant("weighted_sum.cu", "weighted_sum_" + pass, defines, threads, 0));
                }
            }
        }
        return variants.stream();
    }

    private static Stream<KernelVariant> firstFlash() {
        List<KernelVariant> variants = new ArrayList<>();
        for (DType type : TensorChecks.KERNEL_TYPES) {
            for (int width : new int[] {8, 16, 32, 64, 80, 128}) {
                for (FirstFlashKernel kernel : FirstFlashKernel.values()) {
                    variants.add(new KernelVariant(
                            FirstFlash.FILE,
                            kernel.function(),
                            kernel.defines(type, width),
                            FirstFlash.BLOCK.threads(),
                            kernel.sharedBytes(width)));
                }
            }
        }
        return variants.stream();
    }

    private static Stream<KernelVariant> mmaFlash() {
        return Stream.of(KernelVariant.AMPERE, KernelVariant.HOPPER)
                .flatMap(architecture -> MmaTileTable.all(architecture)
                        .map(tile -> new KernelVariant(
                                tile.kernel().file(),
                                tile.kernel().function(),
                                tile.defines(),
                                tile.threads(),
                                tile.sharedBytes(),
                                List.of(architecture))));
    }
}
